#pragma once

#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/data/random.hpp"

namespace ddp {

/// A weight or a bias, and where it lies in the flat buffers of a ParameterStore.
struct Parameter {
  std::string name;        ///< "layers.0.weight", as PyTorch would call it
  std::vector<int> shape;  ///< (outputs, inputs) of a weight, (outputs) of a bias
  bool decays;             ///< whether weight decay applies
  std::size_t offset = 0;  ///< of its first element, in elements
  std::size_t count = 0;   ///< number of elements
};

/// All parameters of a model in one flat device buffer, and their gradients in another of the same
/// layout: an all-reduce, a checksum or a clipping is then one pass over one buffer. Each parameter
/// starts at a multiple of 256 bytes, as an allocation of its own would; the padding is zero.
/// Behind the gradients there is room for a few numbers that are to be added up as they are.
template <class T>
class ParameterStore {
 public:
  /// Lays out `parameters` in their order, filling in offset and count. All is 0 at first. `extras`
  /// is the number of elements behind the gradients.
  ParameterStore(std::vector<Parameter> parameters, cudaStream_t stream, std::size_t extras = 0)
      : parameters_(std::move(parameters)),
        values_(lay_out(parameters_, 256 / sizeof(T))),
        gradients_(values_.size() + extras) {
    cuda::clear_async(values_.data(), values_.size(), stream);
    cuda::clear_async(gradients_.data(), gradients_.size(), stream);
  }

  const std::vector<Parameter>& parameters() const { return parameters_; }

  /// The flat buffers, with their padding.
  std::span<T> values() const { return {values_.data(), values_.size()}; }
  std::span<T> gradients() const { return {gradients_.data(), values_.size()}; }
  std::span<T> gradients_and_extras() const { return {gradients_.data(), gradients_.size()}; }
  T* extras() const { return gradients_.data() + values_.size(); }

  /// One parameter's part of them.
  std::span<T> value(std::size_t index) const { return part(values(), index); }
  std::span<T> gradient(std::size_t index) const { return part(gradients(), index); }

  /// Every parameter's values, in order.
  std::vector<std::span<const T>> value_views() const {
    std::vector<std::span<const T>> views;
    for (const Parameter& p : parameters_) views.push_back(values().subspan(p.offset, p.count));
    return views;
  }

 private:
  static std::size_t lay_out(std::vector<Parameter>& parameters, std::size_t alignment) {
    std::size_t end = 0;
    for (Parameter& parameter : parameters) {
      parameter.offset = end;
      parameter.count = 1;
      for (const int size : parameter.shape) parameter.count *= static_cast<std::size_t>(size);
      end += (parameter.count + alignment - 1) / alignment * alignment;
    }
    return end;
  }
  std::span<T> part(std::span<T> whole, std::size_t index) const {
    return whole.subspan(parameters_[index].offset, parameters_[index].count);
  }

  std::vector<Parameter> parameters_;
  cuda::DeviceBuffer<T> values_, gradients_;
};

/// He initialisation (He et al. 2015): weights uniform in [-b, b) with b = sqrt(6 / inputs), biases
/// zero. An element depends on the seed, its parameter's index and its own index alone. It is
/// computed in double and rounded once, so that fp32 weights are the rounded fp64 ones.
template <class T>
void initialise(const ParameterStore<T>& store, std::uint64_t seed, cudaStream_t stream) {
  for (std::size_t i = 0; i < store.parameters().size(); ++i) {
    const Parameter& parameter = store.parameters()[i];
    if (parameter.shape.size() != 2) continue;
    const double bound = std::sqrt(6.0 / parameter.shape[1]);
    const std::uint64_t numbers = random_stream(RandomUse::weights, static_cast<std::uint32_t>(i));
    std::vector<T> values(parameter.count);
    for (std::size_t element = 0; element < values.size(); ++element) {
      values[element] = static_cast<T>(bound * (2 * uniform(seed, numbers, element) - 1));
    }
    cuda::upload(store.value(i).data(), std::span<const T>(values), stream);
  }
}

}  // namespace ddp
