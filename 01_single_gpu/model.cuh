#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "01_single_gpu/activation.cuh"
#include "01_single_gpu/bias_gradient.cuh"
#include "01_single_gpu/linear.hpp"
#include "01_single_gpu/parameter_store.hpp"
#include "common/cli/options.hpp"
#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"

namespace ddp {

/// Told the index of a parameter once the work that makes its gradient is in the stream: enqueued,
/// not done. Called on the host; must not wait for the device.
using GradientCallback = std::function<void(std::size_t parameter)>;

/// A multilayer perceptron: linear layers with an activation after each but the last. Its work goes
/// to one stream; its memory is allocated once, for batches of up to `max_batch` samples.
template <class T>
class Model {
 public:
  /// `options` give the layers, the activation and the seed of the first weights.
  Model(const Options& options, int max_batch, cudaStream_t stream)
      : activation_(options.activation),
        max_batch_(max_batch),
        stream_(stream),
        blas_(stream),
        parameters_(parameters_of(options.layers), stream) {
    for (std::size_t l = 0; l + 1 < options.layers.size(); ++l) {
      const int outputs = options.layers[l + 1];
      const std::size_t size = static_cast<std::size_t>(max_batch) * outputs;
      layers_.push_back({options.layers[l], outputs, cuda::DeviceBuffer<T>(size),
                         cuda::DeviceBuffer<T>(size), cuda::DeviceBuffer<T>(size)});
    }
    initialise(parameters_, options.seed, stream);
  }

  const ParameterStore<T>& parameters() const { return parameters_; }
  int max_batch() const { return max_batch_; }

  /// Enqueues the outputs, shape (count, last layer), which stay valid until the next call.
  /// `inputs`, shape (count, first layer), must stay until backward() has run. count may be 0.
  const T* forward(const T* inputs, int count) {
    inputs_ = inputs;
    count_ = count;
    for (std::size_t l = 0; l < layers_.size() && count > 0; ++l) {
      const Layer& layer = layers_[l];
      T* z = layer.pre_activation.data();
      const Factor<T> x{input_of(l), count, layer.inputs};
      const Factor<T> weight_transposed{weight(l), layer.outputs, layer.inputs, true};
      multiply<T>(blas_, x, weight_transposed, 0, z);  // z = x W^T
      if (l + 1 < layers_.size()) {
        activate(activation_, z, bias(l), layer.activated.data(), count, layer.outputs, stream_);
      } else {
        activate_by<Identity<T>>(z, bias(l), z, count, layer.outputs, stream_);
      }
    }
    return layers_.back().pre_activation.data();
  }

  /// Enqueues the gradients of all parameters, given that of the last forward()'s outputs, shape
  /// (count, last layer): gradient = beta * gradient + this batch's. The callback gets the last
  /// parameter first, for that is the order in which gradients come about.
  void backward(const T* output_gradient, T beta = 0, const GradientCallback& enqueued = {}) {
    if (count_ == 0 && beta == T(0)) {  // an empty batch has a gradient too: zero
      cuda::clear_async(parameters_.gradients().data(), parameters_.gradients().size(), stream_);
    }
    const T* z_gradient = output_gradient;
    for (std::size_t l = layers_.size(); l-- > 0;) {
      const Layer& layer = layers_[l];
      const Factor<T> dz{z_gradient, count_, layer.outputs};
      const Factor<T> dz_transposed{z_gradient, count_, layer.outputs, true};
      const std::size_t w = 2 * l, b = 2 * l + 1;
      if (count_ > 0) {
        bias_gradient(z_gradient, beta, parameters_.gradient(b).data(), count_, layer.outputs,
                      stream_);
      }
      if (enqueued) enqueued(b);
      if (count_ > 0) {
        const Factor<T> x{input_of(l), count_, layer.inputs};
        multiply(blas_, dz_transposed, x, beta, parameters_.gradient(w).data());  // dW = dz^T x
      }
      if (enqueued) enqueued(w);
      if (l == 0 || count_ == 0) continue;  // nobody asks for the gradient of the inputs
      T* x_gradient = layers_[l - 1].gradient.data();
      multiply<T>(blas_, dz, {weight(l), layer.outputs, layer.inputs}, 0, x_gradient);  // dx = dz W
      activation_gradient(activation_, layers_[l - 1].pre_activation.data(), x_gradient,
                          static_cast<std::size_t>(count_) * layer.inputs, stream_);
      z_gradient = x_gradient;
    }
  }

 private:
  struct Layer {
    int inputs, outputs;
    // All (max_batch, outputs). The last layer uses only the first, as its outputs.
    cuda::DeviceBuffer<T> pre_activation, activated, gradient;
  };

  static std::vector<Parameter> parameters_of(const std::vector<int>& sizes) {
    std::vector<Parameter> parameters;
    for (std::size_t l = 0; l + 1 < sizes.size(); ++l) {
      const std::string name = "layers." + std::to_string(l);
      parameters.push_back({name + ".weight", {sizes[l + 1], sizes[l]}, true});
      parameters.push_back({name + ".bias", {sizes[l + 1]}, false});
    }
    return parameters;
  }
  T* weight(std::size_t layer) const { return parameters_.value(2 * layer).data(); }
  T* bias(std::size_t layer) const { return parameters_.value(2 * layer + 1).data(); }
  const T* input_of(std::size_t layer) const {
    return layer == 0 ? inputs_ : layers_[layer - 1].activated.data();
  }

  Activation activation_;
  int max_batch_;
  cudaStream_t stream_;
  cuda::Blas blas_;
  ParameterStore<T> parameters_;
  std::vector<Layer> layers_;
  const T* inputs_ = nullptr;  // of the last forward()
  int count_ = 0;
};

}  // namespace ddp
