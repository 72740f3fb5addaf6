#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "01_single_gpu/parameter_store.hpp"
#include "01_single_gpu/reductions.cuh"
#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// One thread a pack; see Sgd. If one of the four would not be finite, all four stay.
template <class T>
__global__ void sgd_kernel(Pack<T>* values, Pack<T>* velocities, const Pack<T>* gradients,
                           std::size_t count, T learning_rate, T momentum, T decay,
                           const unsigned* stop, unsigned* flags) {
  const std::size_t p = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= count || stop[0] != 0 || stop[1] != 0) return;
  Pack<T> value, velocity;
  for (int i = 0; i < 4; ++i) {
    velocity.at[i] =
        momentum * velocities[p].at[i] + (gradients[p].at[i] + decay * values[p].at[i]);
    value.at[i] = values[p].at[i] - learning_rate * velocity.at[i];
  }
  if (zero_if_finite(value) != T(0)) {
    atomicOr(flags, non_finite_update);
    return;
  }
  velocities[p] = velocity;
  values[p] = value;
}

/// Stochastic gradient descent with momentum and weight decay:
///
///     v = momentum * v + (g + weight_decay * w)      decay for weights, not for biases
///     w = w - learning_rate * v
///
/// v starts at 0, so that the first step has v = g.
template <class T>
class Sgd {
 public:
  Sgd(const Options& options, const ParameterStore<T>& parameters, cudaStream_t stream)
      : momentum_(static_cast<T>(options.momentum)),
        weight_decay_(static_cast<T>(options.weight_decay)),
        velocities_(parameters.values().size()),
        stop_(2) {
    cuda::clear_async(velocities_.data(), velocities_.size(), stream);
  }

  /// Updates all values from their gradients, unless `scalars` have a flag raised or say that the
  /// step is to be skipped: then nothing changes. An element that would not be finite afterwards
  /// stays as it is, together with at most three neighbours, and raises non_finite_update.
  void step(const ParameterStore<T>& parameters, double learning_rate, StepScalars<T>* scalars,
            cudaStream_t stream) const {
    const cuda::Range range("update");
    // Read the flags before any thread can raise one: what a thread does must not depend on how far
    // the others are.
    cuda::copy_async(stop_.data(), &scalars->skip, 2, stream);  // and the flags, which follow
    for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
      const Parameter& parameter = parameters.parameters()[i];
      const std::size_t packs = (parameter.count + 3) / 4;  // the last one ends in padding: zeros
      cuda::launch<sgd_kernel<T>>({.stream = stream,
                                   .grid = cuda::blocks_for(packs, 256),
                                   .block = 256,
                                   .bytes_moved = 5 * packs * sizeof(Pack<T>)},
                                  reinterpret_cast<Pack<T>*>(parameters.value(i).data()),
                                  reinterpret_cast<Pack<T>*>(velocities_.data() + parameter.offset),
                                  reinterpret_cast<const Pack<T>*>(parameters.gradient(i).data()),
                                  packs, static_cast<T>(learning_rate), momentum_,
                                  parameter.decays ? weight_decay_ : T(0), stop_.data(),
                                  &scalars->flags);
    }
  }

  /// The velocities v, laid out as the parameters are.
  std::span<T> velocities() const { return {velocities_.data(), velocities_.size()}; }

 private:
  T momentum_, weight_decay_;
  cuda::DeviceBuffer<T> velocities_;
  cuda::DeviceBuffer<unsigned> stop_;  // (2)
};

}  // namespace ddp
