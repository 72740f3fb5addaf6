#pragma once

namespace ddp {

/// What can go wrong inside a step, seen by a kernel: bits of StepScalars::flags.
enum StepFlag : unsigned {
  non_finite_loss = 1,
  non_finite_gradient = 2,
  non_finite_update = 4,  ///< learning rate times a finite gradient overflowed
  label_out_of_range = 8,
};

/// The few numbers that a step leaves on the device for the host to read later. The sums are
/// cleared every step. The flags are not: once one is raised no update is applied any more, so that
/// the weights stay those of the last good step although the host, a few steps ahead, hears of it
/// late.
template <class T>
struct StepScalars {
  T loss_sum;       ///< sum over the samples, not yet divided
  T correct;        ///< number of samples whose largest output is the label's
  T gradient_norm;  ///< of all parameters together, before clipping; only with clipping
  // An optimizer copies the next two at once, to see whether it may change anything.
  unsigned skip;   ///< not 0: the step leaves the weights as they are, which is no failure
  unsigned flags;  ///< StepFlag bits
  unsigned raised_by =
      0;              ///< 1 + the first rank that raised a flag; 0 where none did, or all together
  unsigned stop = 0;  ///< not 0: a rank was asked to stop the run
  T loss_scale = 0;   ///< what the gradient was multiplied by on its way; 0 before stage 06
  T applied = 0;      ///< steps so far that changed the weights, without this one; from stage 06
  double learning_rate = 0;  ///< of this step, where it is chosen on the device; 0 elsewhere
};

}  // namespace ddp
