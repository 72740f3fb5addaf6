#pragma once

#include <span>
#include <vector>

#include "01_single_gpu/sgd.cuh"
#include "07_scaling_rules/learning_rate.hpp"
#include "common/run/checkpoint.hpp"

namespace ddp {

/// What has to outlive a step, all of one type, so that it is one tensor of a checkpoint. (Counts
/// are exact up to 2^24.)
template <class T>
struct ScheduleState {
  T updates;    ///< that were applied
  T last_rate;  ///< of the last of them
  T rate;       ///< of the one under way; not in the checkpoint
};

/// One thread: the rate of the next update.
template <class T>
__global__ void choose_rate_kernel(RateSchedule schedule, ScheduleState<T>* state,
                                   StepScalars<T>* scalars) {
  const auto update = static_cast<std::int64_t>(state->updates) + 1;
  scalars->learning_rate = learning_rate(schedule, update);
  state->rate = static_cast<T>(scalars->learning_rate);
}

/// One thread a pack, as in stage 01's sgd_kernel; see MomentumSgd for the two forms. If one of the
/// four would not be finite, all four stay.
template <class T>
__global__ void momentum_sgd_kernel(Pack<T>* values, Pack<T>* velocities, const Pack<T>* gradients,
                                    std::size_t count, const ScheduleState<T>* state, T momentum,
                                    bool velocity_form, T decay, const unsigned* stop,
                                    unsigned* flags) {
  const std::size_t p = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= count || stop[0] != 0 || stop[1] != 0) return;
  T history = momentum;
  if (velocity_form) {
    // [exercise 7.3] v is a sum of steps, each at the rate of its time. Make it one at this rate.
    history *= state->rate / state->last_rate;
    // [/exercise]
  }
  const T into_velocity = velocity_form ? state->rate : T(1);
  const T into_value = velocity_form ? T(1) : state->rate;
  Pack<T> value, velocity;
  for (int i = 0; i < 4; ++i) {
    const T gradient = gradients[p].at[i] + decay * values[p].at[i];
    velocity.at[i] = history * velocities[p].at[i] + into_velocity * gradient;
    value.at[i] = values[p].at[i] - into_value * velocity.at[i];
  }
  if (zero_if_finite(value) != T(0)) {
    atomicOr(flags, non_finite_update);
    return;
  }
  velocities[p] = velocity;
  values[p] = value;
}

/// One thread: counts the update, unless it was skipped.
template <class T>
__global__ void count_update_kernel(ScheduleState<T>* state, const unsigned* stop) {
  if (stop[0] != 0 || stop[1] != 0) return;
  ++state->updates;
  state->last_rate = state->rate;
}

/// Momentum in either of its two forms, at a rate that may change, with weight decay inside g as in
/// stage 01:
///
///     gradient   v = momentum * v + g                                   w = w - rate * v
///     velocity   v = momentum * (rate / last rate) * v + rate * g       w = w - v
///
/// As long as the rate stays they are one: the second v is rate times the first. When it changes,
/// the first form follows at once, since no rate is in its v. The second has old rates in v, and
/// the factor is what corrects that: Goyal et al. 2017, arXiv:1706.02677, section 3, remark 2.
///
/// The rate is chosen on the device, by the number of updates that were applied: whether a step is
/// skipped is known there, and to the host only later.
template <class T>
class MomentumSgd {
 public:
  MomentumSgd(const Options& options, const ParameterStore<T>& parameters, cudaStream_t stream)
      : velocity_form_(options.momentum_form == MomentumForm::velocity),
        momentum_(static_cast<T>(options.momentum)),
        weight_decay_(static_cast<T>(options.weight_decay)),
        velocities_(parameters.values().size()),
        state_(1),
        stop_(2) {
    cuda::clear_async(velocities_.data(), velocities_.size(), stream);
    const ScheduleState<T> first{0, 1, 0};  // any last rate but 0 will do: v is 0
    cuda::upload(state_.data(), std::span(&first, 1), stream);
  }

  /// Updates all values from their gradients at the rate that the schedule has for the next update,
  /// and notes it in `scalars`. As Sgd::step, changes nothing where a flag is
  /// raised or the step is to be skipped.
  void step(const ParameterStore<T>& parameters, const RateSchedule& schedule,
            StepScalars<T>* scalars, cudaStream_t stream) const {
    const cuda::Range range("update");
    cuda::copy_async(stop_.data(), &scalars->skip, 2, stream);  // and the flags, as they are now
    cuda::launch<choose_rate_kernel<T>>({stream, 1, 1}, schedule, state_.data(), scalars);
    for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
      const Parameter& parameter = parameters.parameters()[i];
      const std::size_t packs = (parameter.count + 3) / 4;
      cuda::launch<momentum_sgd_kernel<T>>(
          {.stream = stream,
           .grid = cuda::blocks_for(packs, 256),
           .block = 256,
           .bytes_moved = 5 * packs * sizeof(Pack<T>)},
          reinterpret_cast<Pack<T>*>(parameters.value(i).data()),
          reinterpret_cast<Pack<T>*>(velocities_.data() + parameter.offset),
          reinterpret_cast<const Pack<T>*>(parameters.gradient(i).data()), packs, state_.data(),
          momentum_, velocity_form_, parameter.decays ? weight_decay_ : T(0), stop_.data(),
          &scalars->flags);
    }
    cuda::launch<count_update_kernel<T>>({stream, 1, 1}, state_.data(), stop_.data());
  }

  /// For a checkpoint: the number of updates, and the rate of the last one.
  NamedBuffer<T> state() const { return {"schedule", {2}, {&state_.data()->updates, 2}}; }

  /// The velocities v, laid out as the parameters are.
  std::span<T> velocities() const { return {velocities_.data(), velocities_.size()}; }

 private:
  bool velocity_form_;
  T momentum_, weight_decay_;
  cuda::DeviceBuffer<T> velocities_;
  cuda::DeviceBuffer<ScheduleState<T>> state_;  // (1)
  cuda::DeviceBuffer<unsigned> stop_;           // (2)
};

}  // namespace ddp
