#pragma once

#include <vector>

#include "01_single_gpu/sgd.cuh"
#include "01_single_gpu/training_state.hpp"

namespace ddp {

/// sgd_kernel of stage 01 for the other form of momentum; see MomentumSgd. One thread a pack, and
/// if one of the four would not be finite, all four stay.
template <class T>
__global__ void velocity_sgd_kernel(Pack<T>* values, Pack<T>* velocities, const Pack<T>* gradients,
                                    std::size_t count, T learning_rate, const T* last_rate,
                                    T momentum, T decay, const unsigned* stop, unsigned* flags) {
  const std::size_t p = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= count || *stop != 0) return;
  T history = momentum;
  // [exercise 7.3] The old velocity is a sum of steps at the rates of their time. Make it one of
  // steps at the rate of now.
  history *= learning_rate / *last_rate;
  // [/exercise]
  Pack<T> value, velocity;
  T zero = 0;  // stays so, or becomes NaN: infinity - infinity and NaN - NaN are
  for (int i = 0; i < 4; ++i) {
    const T gradient = gradients[p].at[i] + decay * values[p].at[i];
    velocity.at[i] = history * velocities[p].at[i] + learning_rate * gradient;
    value.at[i] = values[p].at[i] - velocity.at[i];
    zero += value.at[i] - value.at[i];
  }
  if (zero != T(0)) {
    atomicOr(flags, non_finite_update);
    return;
  }
  velocities[p] = velocity;
  values[p] = value;
}

/// One thread: notes the rate of an update, unless it was skipped.
template <class T>
__global__ void note_rate_kernel(T* last_rate, T learning_rate, const unsigned* stop) {
  if (*stop == 0) *last_rate = learning_rate;
}

/// Momentum in either of its two forms, with weight decay inside g as in stage 01:
///
///     gradient   v = momentum * v + g                                   w = w - rate * v
///     velocity   v = momentum * (rate / last rate) * v + rate * g       w = w - v
///
/// As long as the rate stays they are one: the second v is rate times the first. When it changes,
/// the first form follows at once, since the rate is not in v. The second has the old rate in v,
/// and the factor is what corrects that: Goyal et al. 2017, arXiv:1706.02677, section 3, remark 2.
template <class T>
class MomentumSgd {
 public:
  MomentumSgd(const Options& options, const ParameterStore<T>& parameters, cudaStream_t stream)
      : form_(options.momentum_form),
        momentum_(static_cast<T>(options.momentum)),
        weight_decay_(static_cast<T>(options.weight_decay)),
        gradient_form_(options, parameters, stream),
        last_rate_(1),
        stop_(1) {
    const std::vector<T> any = {T(1)};  // v is 0 at first, so that no factor matters but NaN
    cuda::upload(last_rate_.data(), std::span<const T>(any), stream);
  }

  /// Updates all values from their gradients, as Sgd::step does, at a rate above 0.
  void step(const ParameterStore<T>& parameters, double learning_rate, StepScalars<T>* scalars,
            cudaStream_t stream) const {
    const auto rate = static_cast<T>(learning_rate);
    cuda::copy_async(stop_.data(), &scalars->flags, 1, stream);  // as they were before the update
    if (form_ == MomentumForm::gradient) {
      gradient_form_.step(parameters, learning_rate, scalars, stream);
    } else {
      step_by_velocity(parameters, rate, scalars, stream);
    }
    cuda::launch<note_rate_kernel<T>>({stream, 1, 1}, last_rate_.data(), rate, stop_.data());
  }

  /// What it has to remember from step to step: for a checkpoint.
  std::vector<NamedBuffer<T>> state(const ParameterStore<T>& parameters) const {
    std::vector<NamedBuffer<T>> buffers = training_state(parameters, gradient_form_);
    buffers.push_back({"optimizer.learning_rate", {1}, {last_rate_.data(), 1}});
    return buffers;
  }

  /// v, laid out as the parameters are.
  std::span<T> velocities() const { return gradient_form_.velocities(); }

 private:
  void step_by_velocity(const ParameterStore<T>& parameters, T rate, StepScalars<T>* scalars,
                        cudaStream_t stream) const {
    const cuda::Range range("update");
    for (std::size_t i = 0; i < parameters.parameters().size(); ++i) {
      const Parameter& parameter = parameters.parameters()[i];
      const std::size_t packs = (parameter.count + 3) / 4;
      T* const velocity = velocities().data() + parameter.offset;
      cuda::launch<velocity_sgd_kernel<T>>(
          {.stream = stream,
           .grid = cuda::blocks_for(packs, 256),
           .block = 256,
           .bytes_moved = 5 * packs * sizeof(Pack<T>)},
          reinterpret_cast<Pack<T>*>(parameters.value(i).data()),
          reinterpret_cast<Pack<T>*>(velocity),
          reinterpret_cast<const Pack<T>*>(parameters.gradient(i).data()), packs, rate,
          last_rate_.data(), momentum_, parameter.decays ? weight_decay_ : T(0), stop_.data(),
          &scalars->flags);
    }
  }

  MomentumForm form_;
  T momentum_, weight_decay_;
  Sgd<T> gradient_form_;               // holds v for both forms
  cuda::DeviceBuffer<T> last_rate_;    // (1)
  cuda::DeviceBuffer<unsigned> stop_;  // (1)
};

}  // namespace ddp
