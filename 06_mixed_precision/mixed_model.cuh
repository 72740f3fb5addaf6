#pragma once

#include <cstddef>
#include <span>
#include <type_traits>

#include "01_single_gpu/model.cuh"
#include "06_mixed_precision/cast.cuh"
#include "common/cuda/buffer.hpp"

namespace ddp {

/// Stage 01's model computing in halves inside of a program that computes in fp32 (Micikevicius et
/// al. 2017, "Mixed Precision Training", section 3). What enters the layers is rounded to T, what
/// leaves them is made fp32 again:
///
///     fp32      | inputs   master weights |             | outputs -> loss -> gradient |
///               |    \          |         |             |   /                   \ x scale
///     halves    |  inputs    weights -> forward -> outputs                  gradient -> backward
///     fp32      |                                              gradients of the weights <---/
///
/// Products add in fp32, whatever their factors are (common/cuda/blas.hpp). With T float or double
/// nothing is rounded, and this is the model of stage 01.
template <class T>
class MixedModel {
 public:
  using Scalar = Wide<T>;

  /// As Model's; `loss_scale` is one number in device memory, by which backward() multiplies.
  MixedModel(const Options& options, int max_batch, cudaStream_t stream, const Scalar* loss_scale,
             std::size_t extras = 0)
      : stream_(stream),
        loss_scale_(loss_scale),
        keep_masters_(options.master_weights),
        model_(options, max_batch, stream, extras),
        input_size_(static_cast<std::size_t>(options.layers.front())),
        output_size_(static_cast<std::size_t>(options.layers.back())) {
    const auto batch = static_cast<std::size_t>(max_batch);
    output_gradient_ = cuda::DeviceBuffer<T>(batch * output_size_);
    if constexpr (in_halves) {
      weights_ = cuda::DeviceBuffer<T>(parameters().values().size());
      inputs_ = cuda::DeviceBuffer<T>(batch * input_size_);
      outputs_ = cuda::DeviceBuffer<Scalar>(batch * output_size_);
      model_.compute_with(weights_.data());
    }
  }

  /// The master weights, and the gradients of the scaled loss.
  const ParameterStore<Scalar>& parameters() const { return model_.parameters(); }
  int max_batch() const { return model_.max_batch(); }

  /// Rounds the master weights to the halves to compute with: after every change of them.
  void cast_weights() {
    if constexpr (in_halves) {
      const cuda::Range range("cast weights");
      const std::span<T> halves{weights_.data(), weights_.size()};
      // [exercise 6.4] The layers get halves; the masters keep what the halves cannot hold.
      cast(std::span<const Scalar>(parameters().values()), halves, stream_);
      // [/exercise]
      if (!keep_masters_) cast(std::span<const T>(halves), parameters().values(), stream_);
    }
  }

  /// Outputs in fp32, shape (count, last layer); `inputs` as the loader brings them.
  const Scalar* forward(const Scalar* inputs, int count) {
    count_ = static_cast<std::size_t>(count);
    if constexpr (in_halves) {
      const std::size_t size = count_ * input_size_;
      cast(std::span(inputs, size), std::span(inputs_.data(), size), stream_);
      const T* outputs = model_.forward(inputs_.data(), count);
      const std::span<Scalar> wide{outputs_.data(), count_ * output_size_};
      cast(std::span(outputs, wide.size()), wide, stream_);
      return wide.data();
    } else {
      return model_.forward(inputs, count);
    }
  }

  /// Gradients of the loss times the loss scale. A gradient is smallest where it is born, divided
  /// by the global batch already: so it is multiplied in fp32, and rounded then.
  void backward(const Scalar* output_gradient, Scalar beta = 0,
                const GradientCallback& on_enqueued = {}) {
    const std::span<T> scaled{output_gradient_.data(), count_ * output_size_};
    scale_and_cast(std::span(output_gradient, scaled.size()), loss_scale_, scaled, stream_);
    model_.backward(scaled.data(), beta, on_enqueued);
  }

 private:
  static constexpr bool in_halves = !std::is_same_v<T, Scalar>;

  cudaStream_t stream_;
  const Scalar* loss_scale_;
  bool keep_masters_;
  Model<T> model_;
  std::size_t input_size_, output_size_;
  std::size_t count_ = 0;                  // of the last forward()
  cuda::DeviceBuffer<T> weights_;          // laid out as the masters
  cuda::DeviceBuffer<T> inputs_;           // (max_batch, first layer)
  cuda::DeviceBuffer<Scalar> outputs_;     // (max_batch, last layer)
  cuda::DeviceBuffer<T> output_gradient_;  // (max_batch, last layer)
};

}  // namespace ddp
