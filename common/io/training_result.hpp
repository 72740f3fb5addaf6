#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

/// What one rank has sent and received, as its calls asked for it: a message counts when it is
/// handed over, and its bytes are those of its values.
struct Traffic {
  std::int64_t messages_sent = 0;
  std::int64_t bytes_sent = 0;
  std::int64_t messages_received = 0;
  std::int64_t bytes_received = 0;
  double modelled_seconds = 0;        ///< that the messages would take over the link of SIMGPU_LINK
  std::int64_t collectives = 0;       ///< from stage 05 on: all-reduces of a bucket,
  std::int64_t collective_bytes = 0;  ///< and the bytes of these buckets
};

/// Of `count` times the same.
inline Traffic operator*(std::int64_t count, const Traffic& one) {
  return {count * one.messages_sent,
          count * one.bytes_sent,
          count * one.messages_received,
          count * one.bytes_received,
          static_cast<double>(count) * one.modelled_seconds,
          count * one.collectives,
          count * one.collective_bytes};
}
inline Traffic operator+(const Traffic& a, const Traffic& b) {
  return {a.messages_sent + b.messages_sent,         a.bytes_sent + b.bytes_sent,
          a.messages_received + b.messages_received, a.bytes_received + b.bytes_received,
          a.modelled_seconds + b.modelled_seconds,   a.collectives + b.collectives,
          a.collective_bytes + b.collective_bytes};
}
inline Traffic operator-(const Traffic& a, const Traffic& b) { return a + -1 * b; }

/// One line of the metrics.
struct StepRecord {
  std::int64_t step;
  int epoch;
  double loss;  ///< mean over the global batch, before the update
  double learning_rate;
  int samples;
  double seconds;         ///< on the device, from the end of the step before to the end of this one
  double loss_scale = 0;  ///< of this step's gradient; 0 where there is none, before stage 06
  bool skipped = false;   ///< the gradient overflowed under it, and the weights stayed
};

struct Evaluation {
  double loss;      ///< mean over the test set
  double accuracy;  ///< share of samples whose largest output is the label's; NaN without labels
};

/// Over some samples of the test set: sums, which ranks can add, not means, which they cannot.
struct EvaluationSums {
  double loss_sum;
  double correct;  ///< NaN where the data has no labels
  std::int64_t samples;
};

/// How far a step's loss and gradient are from those that one rank computes from the same weights
/// for the whole batch in one pass.
struct GradientDifference {
  std::int64_t step;
  double loss;      ///< relative
  double gradient;  ///< norm of the difference, relative to the norm of the gradient
};

/// What a run leaves behind; the program prints it and the tests read it.
struct TrainingResult {
  std::vector<StepRecord> steps;
  Evaluation test;
  std::vector<GradientDifference> gradient_differences;  ///< with --check-gradients, one a step
  std::vector<Traffic> traffic;                          ///< of each rank, in the training steps
  std::vector<Traffic> traffic_by_formula;               ///< what it should be, where known
  std::uint64_t parameter_checksum = 0;                  ///< FNV-1a over the bits of all parameters
  double samples_per_second = 0;                         ///< without the first step, which warms up
  std::size_t peak_device_bytes = 0;  ///< the most that buffers on the device held at one time
  std::string device_name;
  bool simulated = false;    ///< the device is a simulated GPU: times are not those of a GPU
  bool interrupted = false;  ///< ended early by SIGINT or SIGTERM
};

}  // namespace ddp
