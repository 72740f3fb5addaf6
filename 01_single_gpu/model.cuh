#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "01_single_gpu/activation.cuh"
#include "01_single_gpu/bias_gradient.cuh"
#include "01_single_gpu/linear.hpp"
#include "01_single_gpu/parameter_store.hpp"
#include "common/cli/options.hpp"
#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/wide.hpp"

namespace ddp {

/// Told the index of a parameter once the work that makes its gradient is in the stream: enqueued,
/// not done. Called on the host; must not wait for the device.
using GradientCallback = std::function<void(std::size_t parameter)>;

/// A multilayer perceptron: linear layers with an activation after each but the last. Its work goes
/// to one stream; its memory is allocated once, for batches of up to `max_batch` samples. T is the
/// scalar of the layers, Wide<T> that of the parameters and their gradients: T itself, but for
/// halves.
template <class T>
class Model {
 public:
  /// `options` give the layers, the activation and the seed of the first weights; `extras` is the
  /// ParameterStore's.
  Model(const Options& options, int max_batch, cudaStream_t stream, std::size_t extras = 0)
      : activation_(options.activation),
        max_batch_(max_batch),
        stream_(stream),
        blas_(stream),
        parameters_(parameters_of(options.layers), stream, extras) {
    for (std::size_t l = 0; l + 1 < options.layers.size(); ++l) {
      const int outputs = options.layers[l + 1];
      const std::size_t size = static_cast<std::size_t>(max_batch) * outputs;
      layers_.push_back({name_of_layer(l), options.layers[l], outputs, cuda::DeviceBuffer<T>(size),
                         cuda::DeviceBuffer<T>(size), cuda::DeviceBuffer<T>(size)});
    }
    initialise(parameters_, options.seed, stream);
    if constexpr (std::is_same_v<T, Wide<T>>) compute_with(parameters_.values().data());
  }

  const ParameterStore<Wide<T>>& parameters() const { return parameters_; }
  /// From now on the layers take their parameters from `values`, laid out as those of parameters().
  void compute_with(const T* values) { values_ = values; }
  int max_batch() const { return max_batch_; }

  /// Enqueues the outputs, shape (count, last layer), which stay valid until the next call.
  /// `inputs`, shape (count, first layer), must stay until backward() has run. count may be 0.
  const T* forward(const T* inputs, int count) {
    const cuda::Range range("forward");
    inputs_ = inputs;
    count_ = count;
    for (std::size_t l = 0; l < layers_.size() && count > 0; ++l) {
      const Layer& layer = layers_[l];
      const cuda::Range layer_range(layer.name.c_str());
      T* z = layer.pre_activation.data();
      const Factor<T> x{input_of(l), count, layer.inputs};
      const Factor<T> w{weight(l), layer.outputs, layer.inputs};
      multiply(blas_, x, w.transpose(), Wide<T>(0), z);  // z = x W^T
      if (l + 1 < layers_.size()) {
        activate(activation_, z, bias(l), layer.activated.data(), count, layer.outputs, stream_);
      } else {
        activate_by<Identity<Wide<T>>>(z, bias(l), z, count, layer.outputs, stream_);
      }
    }
    return layers_.back().pre_activation.data();
  }

  /// Enqueues the gradients of all parameters, given that of the last forward()'s outputs, shape
  /// (count, last layer): gradient = beta * gradient + this batch's. The callback gets the last
  /// parameter first, for that is the order in which gradients come about.
  void backward(const T* output_gradient, Wide<T> beta = 0,
                const GradientCallback& on_enqueued = {}) {
    const cuda::Range range("backward");
    const auto enqueued = [&](std::size_t parameter) {
      if (on_enqueued) on_enqueued(parameter);
    };
    if (count_ == 0) {  // an empty batch has a gradient too: zero
      const std::span<Wide<T>> gradients = parameters_.gradients();
      if (beta == 0) cuda::clear_async(gradients.data(), gradients.size(), stream_);
      for (std::size_t p = parameters_.parameters().size(); p-- > 0;) enqueued(p);
      return;
    }
    const T* z_gradient = output_gradient;
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const cuda::Range layer_range(layers_[l].name.c_str());
      const int inputs = layers_[l].inputs, outputs = layers_[l].outputs;
      Wide<T>* dw = parameters_.gradient(2 * l).data();
      Wide<T>* db = parameters_.gradient(2 * l + 1).data();
      bias_gradient(z_gradient, beta, db, count_, outputs, stream_);
      enqueued(2 * l + 1);
      const Factor<T> dz{z_gradient, count_, outputs}, x{input_of(l), count_, inputs};
      multiply(blas_, dz.transpose(), x, beta, dw);  // dW = dz^T x
      enqueued(2 * l);
      if (l == 0) break;  // nobody asks for the gradient of the inputs
      T* dx = layers_[l - 1].gradient.data();
      const Factor<T> w{weight(l), outputs, inputs};
      multiply(blas_, dz, w, Wide<T>(0), dx);  // dx = dz W
      const T* z_before = layers_[l - 1].pre_activation.data();
      const std::size_t size = static_cast<std::size_t>(count_) * inputs;
      activation_gradient(activation_, z_before, dx, size, stream_);
      z_gradient = dx;
    }
  }

  /// Of the last backward(): the gradient of the sums in hidden layer `layer`, shape (count, size).
  std::span<const T> hidden_gradient(std::size_t layer) const {
    const std::size_t size = static_cast<std::size_t>(count_) * layers_[layer].outputs;
    return {layers_[layer].gradient.data(), size};
  }

 private:
  struct Layer {
    std::string name;
    int inputs, outputs;
    // All (max_batch, outputs). The last layer uses only the first, as its outputs.
    cuda::DeviceBuffer<T> pre_activation, activated, gradient;
  };

  static std::string name_of_layer(std::size_t layer) { return "layers." + std::to_string(layer); }
  static std::vector<Parameter> parameters_of(const std::vector<int>& sizes) {
    std::vector<Parameter> parameters;
    for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
      const std::string name = name_of_layer(l);
      parameters.push_back({name + ".weight", {sizes[l + 1], sizes[l]}, true});
      parameters.push_back({name + ".bias", {sizes[l + 1]}, false});
    }
    return parameters;
  }
  const T* weight(std::size_t layer) const { return value(2 * layer); }
  const T* bias(std::size_t layer) const { return value(2 * layer + 1); }
  const T* value(std::size_t index) const {
    return values_ + parameters_.parameters()[index].offset;
  }
  const T* input_of(std::size_t layer) const {
    return layer == 0 ? inputs_ : layers_[layer - 1].activated.data();
  }

  Activation activation_;
  int max_batch_;
  cudaStream_t stream_;
  cuda::Blas blas_;
  ParameterStore<Wide<T>> parameters_;
  std::vector<Layer> layers_;
  const T* values_ = nullptr;  // flat: what the layers compute with
  const T* inputs_ = nullptr;  // of the last forward()
  int count_ = 0;
};

}  // namespace ddp
