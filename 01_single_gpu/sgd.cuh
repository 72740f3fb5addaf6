#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "01_single_gpu/parameter_store.hpp"
#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// One thread an element; see Sgd.
template <class T>
__global__ void sgd_kernel(T* values, T* velocities, const T* gradients, std::size_t count,
                           T learning_rate, T momentum, T decay, const unsigned* stop,
                           unsigned* flags) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count || *stop != 0) return;
  const T velocity = momentum * velocities[i] + (gradients[i] + decay * values[i]);
  const T value = values[i] - learning_rate * velocity;
  if (!std::isfinite(value) || !std::isfinite(velocity)) {
    atomicOr(flags, non_finite_update);
    return;
  }
  velocities[i] = velocity;
  values[i] = value;
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
        stop_(1) {
    cuda::clear_async(velocities_.data(), velocities_.size(), stream);
  }

  /// Updates all values from their gradients, unless a flag in `scalars` is raised: then nothing
  /// changes. An element whose new value or velocity would not be finite stays as it is and raises
  /// non_finite_update.
  void step(const ParameterStore<T>& parameters, double learning_rate, StepScalars<T>* scalars,
            cudaStream_t stream) const {
    // Read the flags before any thread can raise one: what a thread does must not depend on how far
    // the others are.
    cuda::copy_async(stop_.data(), &scalars->flags, 1, stream);
    for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
      const Parameter& parameter = parameters.parameters()[i];
      cuda::launch<sgd_kernel<T>>(
          {stream, cuda::blocks_for(parameter.count, 256), 256}, parameters.value(i).data(),
          velocities_.data() + parameter.offset, parameters.gradient(i).data(), parameter.count,
          static_cast<T>(learning_rate), momentum_, parameter.decays ? weight_decay_ : T(0),
          stop_.data(), &scalars->flags);
    }
  }

  /// The velocities v, laid out as the parameters are.
  std::span<T> velocities() const { return {velocities_.data(), velocities_.size()}; }

 private:
  T momentum_, weight_decay_;
  cuda::DeviceBuffer<T> velocities_;
  cuda::DeviceBuffer<unsigned> stop_;  // (1)
};

}  // namespace ddp
