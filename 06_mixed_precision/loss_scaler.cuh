#pragma once

#include <cstddef>
#include <span>

#include "01_single_gpu/reductions.cuh"
#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/run/checkpoint.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// What has to outlive a step, and a checkpoint: all of one type, so that it is one tensor. (Counts
/// are exact up to 2^24.)
template <class T>
struct LossScaleState {
  T scale;
  T good_steps;  ///< in a row, since the scale last changed
  T applied;     ///< steps that changed the weights
  T skipped;
};

/// Infinite or NaN: the exponent is all ones. Asked of the bits, for a compiler that was told to
/// expect no such numbers (-ffast-math) takes `x == x` and isfinite for true and leaves them out.
inline __device__ bool overflowed(float x) {
  // [exercise 6.1] By the bits: every NaN and both infinities, and no finite number.
  return (__float_as_uint(x) & 0x7f800000U) == 0x7f800000U;
  // [/exercise]
}
inline __device__ bool overflowed(double x) {
  return (__double_as_longlong(x) & 0x7ff0000000000000LL) == 0x7ff0000000000000LL;
}

/// gradient[i] /= scale; raises `overflow` where one is not finite.
template <class T>
__global__ void unscale_kernel(T* gradient, std::size_t count, const LossScaleState<T>* state,
                               unsigned* overflow) {
  const T inverse = T(1) / state->scale;
  const std::size_t first = blockIdx.x * small_tile;
  const std::size_t end = first + small_tile < count ? first + small_tile : count;
  bool finite = true;
  for (std::size_t i = first + threadIdx.x; i < end; i += reduction_block) {
    gradient[i] *= inverse;
    if (overflowed(gradient[i])) finite = false;
  }
  if (!finite) atomicOr(overflow, 1U);
}

/// Whether this step is to be skipped. An overflow is no failure as long as a smaller scale is left
/// to try.
template <class T>
__global__ void judge_kernel(const LossScaleState<T>* state, T floor, unsigned* overflow,
                             StepScalars<T>* scalars) {
  scalars->loss_scale = state->scale;
  scalars->applied = state->applied;
  // [exercise 6.3] All ranks skip a step, or none does. Which number says so, and is it theirs too?
  if (*overflow != 0) {
    if (state->scale > floor) {
      scalars->skip = 1;
    } else {
      scalars->flags |= non_finite_gradient;
    }
  }
  *overflow = 0;
  // [/exercise]
}

/// The next step's scale, by how this one went.
template <class T>
__global__ void update_scale_kernel(LossScaleState<T>* state, LossScaleRule rule,
                                    const StepScalars<T>* scalars) {
  const T scale = state->scale, growth = T(rule.growth), backoff = T(rule.backoff);
  // [exercise 6.2] Back off after an overflow, grow after growth_interval good steps in a row.
  if (scalars->skip != 0) {
    state->scale = scale * backoff > T(rule.floor) ? scale * backoff : T(rule.floor);
    state->good_steps = 0;
  } else if (++state->good_steps == T(rule.growth_interval)) {
    state->scale = scale * growth < T(rule.ceiling) ? scale * growth : T(rule.ceiling);
    state->good_steps = 0;
  }
  // [/exercise]
  ++(scalars->skip != 0 ? state->skipped : state->applied);
}

/// Dynamic loss scaling (Micikevicius et al. 2017, section 3.2): multiply the loss by as much as
/// its gradients can bear in halves. Too much shows as infinity or NaN: then the step is skipped
/// and the scale lowered. Now and then a larger one is tried.
///
/// Everything is decided on the device, so that the host need not wait, and from the gradient after
/// its all-reduce: infinity stays infinity in a sum, or becomes NaN, so what overflowed on one rank
/// has done so for all. They skip together without another message.
template <class T>
class LossScaler {
 public:
  LossScaler(const LossScaleRule& rule, cudaStream_t stream)
      : rule_(rule), state_(1), overflow_(1) {
    const LossScaleState<T> first{T(rule.first), 0, 0, 0};
    cuda::upload(state_.data(), std::span(&first, 1), stream);
    cuda::clear_async(overflow_.data(), 1, stream);
  }

  /// In device memory: what the layers are to multiply by.
  const T* scale() const { return &state_.data()->scale; }

  /// Once the gradient is summed over micro-batches and ranks: divides it by the scale, and decides
  /// whether the step is skipped. Before clipping, which wants to see the true norm.
  void unscale(std::span<T> gradient, StepScalars<T>* scalars, cudaStream_t stream) const {
    const cuda::Range range("unscale");
    cuda::launch<unscale_kernel<T>>({.stream = stream,
                                     .grid = cuda::blocks_for(gradient.size(), small_tile),
                                     .block = reduction_block,
                                     .bytes_moved = 2 * gradient.size_bytes()},
                                    gradient.data(), gradient.size(), state_.data(),
                                    overflow_.data());
    cuda::launch<judge_kernel<T>>({stream, 1, 1}, state_.data(), T(rule_.floor), overflow_.data(),
                                  scalars);
  }

  /// Last in a step: the scale of the next one.
  void update(const StepScalars<T>* scalars, cudaStream_t stream) const {
    const cuda::Range range("loss scale");
    cuda::launch<update_scale_kernel<T>>({stream, 1, 1}, state_.data(), rule_, scalars);
  }

  /// For a checkpoint.
  NamedBuffer<T> state() const { return {"loss_scale", {4}, {&state_.data()->scale, 4}}; }

 private:
  LossScaleRule rule_;
  cuda::DeviceBuffer<LossScaleState<T>> state_;  // (1)
  cuda::DeviceBuffer<unsigned> overflow_;        // (1)
};

}  // namespace ddp
