#pragma once

#include <optional>

#include "01_single_gpu/parameter_store.hpp"
#include "02_grad_accum/pairwise_sum.cuh"
#include "common/cli/options.hpp"
#include "common/run/step.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// Number of a ParameterStore's extras that the accumulator uses: the sum of losses and the hits.
inline constexpr std::size_t loss_extras = 2;

/// Between a step's scalars and the extras behind the gradients, where the sums are added up with
/// them.
template <class T>
__global__ void move_sums_kernel(StepScalars<T>* scalars, T* extras) {
  extras[0] = scalars->loss_sum;
  extras[1] = scalars->correct;
  scalars->loss_sum = scalars->correct = 0;
}
template <class T>
__global__ void move_back_kernel(StepScalars<T>* scalars, const T* extras) {
  scalars->loss_sum = extras[0];
  scalars->correct = extras[1];
}

/// Adds the gradients of a step's micro-batches. Each is divided by the global batch already, so
/// that adding is all there is to do.
///
/// --accumulate running: the backward pass adds to what is there (beta = 1 in the matrix product),
/// which costs no memory and no pass of its own. --accumulate pairwise: each micro-batch's gradient
/// is made apart and added in a fixed binary tree, with the sums of the losses; log2(n) buffers.
template <class T>
class GradientAccumulator {
 public:
  /// `micro_batches` is their number in a step, for pairwise.
  GradientAccumulator(const Options& options, const ParameterStore<T>& parameters,
                      std::size_t micro_batches)
      : parameters_(parameters) {
    if (options.accumulate == Accumulate::pairwise) {
      pairwise_.emplace(micro_batches, parameters.gradients_and_extras().size());
    }
  }

  /// For the backward pass of `micro`: what the gradient that is there counts.
  T beta(const MicroBatch& micro) const {
    if (pairwise_) return 0;
    // [exercise 2.3] When does a gradient start anew?
    return micro.index == 0 ? T(0) : T(1);
    // [/exercise]
  }

  /// After the backward pass of `micro`. After the last one of a step, gradients and scalars hold
  /// the sums.
  void add(const MicroBatch& micro, const Step& step, StepScalars<T>* scalars,
           cudaStream_t stream) {
    if (!pairwise_) return;
    cuda::launch<move_sums_kernel<T>>({stream, 1, 1}, scalars, parameters_.extras());
    pairwise_->push(parameters_.gradients_and_extras(), stream);
    const bool last = micro.index + 1 == static_cast<int>(step.micro_batches.size());
    if (last) cuda::launch<move_back_kernel<T>>({stream, 1, 1}, scalars, parameters_.extras());
  }

 private:
  const ParameterStore<T>& parameters_;
  std::optional<PairwiseSum<T>> pairwise_;
};

}  // namespace ddp
