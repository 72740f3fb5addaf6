#pragma once

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "common/data/dataset.hpp"
#include "common/run/run.hpp"

namespace ddp {

/// --check-gradients: computes every step's loss and gradient once more, from the same weights and
/// for the whole global batch in one pass, and compares. Two free runs drift apart by rounding
/// alone; from the same weights nothing can, so that a small bound is a sharp test.
template <class T, class AnyModel = Model<T>>
class GradientCheck {
 public:
  /// Does nothing where `options` do not ask for it, or on ranks other than 0: one is enough.
  /// `model_arguments` are what the model's constructor takes besides options, batch and stream.
  template <class... Arguments>
  GradientCheck(const Options& options, Run<T>& run, const cuda::Stream& stream, int rank = 0,
                const Arguments&... model_arguments)
      : run_(run), stream_(stream) {
    if (options.check_gradients && rank == 0)
      reference_.emplace(options, run.training_data(), stream, model_arguments...);
  }

  /// Before clipping and the update: `parameters` hold the weights and the finished gradients,
  /// `scalars` the finished sums. Waits for the device.
  void compare(const Step& step, const ParameterStore<T>& parameters,
               const StepScalars<T>* scalars) {
    if (!reference_) return;
    const auto expected = reference_->compute(step, parameters.values(), stream_);
    const auto loss = static_cast<double>(cuda::download(scalars, 1, stream_).front().loss_sum);
    const std::span<T> gradients = parameters.gradients();
    const std::vector<T> actual = cuda::download(gradients.data(), gradients.size(), stream_);
    double difference = 0, norm = 0, actual_norm = 0;
    for (std::size_t i = 0; i < actual.size(); ++i) {
      const auto e = static_cast<double>(expected.gradients[i]);
      difference += (static_cast<double>(actual[i]) - e) * (static_cast<double>(actual[i]) - e);
      norm += e * e;
      actual_norm += static_cast<double>(actual[i]) * static_cast<double>(actual[i]);
    }
    // Both have overflowed under a loss scale (stage 06): there is nothing to compare.
    if (!std::isfinite(norm) && !std::isfinite(actual_norm)) return;
    // A perfect fit has a loss and a gradient of 0.
    const auto relative = [](double apart, double size) { return apart == 0 ? 0 : apart / size; };
    run_.record(GradientDifference{step.number,
                                   relative(std::abs(loss - expected.loss_sum), expected.loss_sum),
                                   std::sqrt(relative(difference, norm))});
  }

 private:
  struct Expected {
    double loss_sum;
    std::vector<T> gradients;  // flat, as in a ParameterStore
  };

  struct Reference {
    template <class... Arguments>
    Reference(const Options& options, const Dataset& training_data, const cuda::Stream& stream,
              const Arguments&... model_arguments)
        : data(training_data),
          model(options, options.global_batch, stream, model_arguments...),
          loss(options.loss, options.layers.back(), options.global_batch),
          inputs(batch_elements(options, data.input_size())),
          targets(batch_elements(options, data.output_size())),
          labels(batch_elements(options, 1)),
          scalars(1) {}

    static std::size_t batch_elements(const Options& options, int size) {
      return static_cast<std::size_t>(options.global_batch) * static_cast<std::size_t>(size);
    }

    Expected compute(const Step& step, std::span<const T> weights, const cuda::Stream& stream) {
      const std::span<T> values = model.parameters().values();
      cuda::copy_async(values.data(), weights.data(), weights.size(), stream);
      if constexpr (requires { model.cast_weights(); }) model.cast_weights();  // stage 06
      std::vector<T> host_inputs(step.samples.size() * static_cast<std::size_t>(data.input_size()));
      std::vector<T> host_targets(step.samples.size() *
                                  static_cast<std::size_t>(data.output_size()));
      std::vector<std::int32_t> host_labels(step.samples.size());
      data.gather_inputs(step.samples, host_inputs.data());
      data.gather_targets(step.samples, host_targets.data());
      if (data.labelled()) data.gather_labels(step.samples, host_labels.data());
      cuda::upload<T>(inputs.data(), host_inputs, stream);
      cuda::upload<T>(targets.data(), host_targets, stream);
      cuda::upload<std::int32_t>(labels.data(), host_labels, stream);

      cuda::clear_async(scalars.data(), 1, stream);
      const Batch<T> batch{inputs.data(), labels.data(), targets.data(), step.count()};
      const T* outputs = model.forward(batch.inputs, batch.count);
      model.backward(loss.forward_backward(outputs, batch, step.count(), scalars.data(), stream));
      const std::span<T> gradients = model.parameters().gradients();
      return {static_cast<double>(cuda::download(scalars.data(), 1, stream).front().loss_sum),
              cuda::download(gradients.data(), gradients.size(), stream)};
    }

    const Dataset& data;
    AnyModel model;
    Loss<T> loss;
    cuda::DeviceBuffer<T> inputs, targets;
    cuda::DeviceBuffer<std::int32_t> labels;
    cuda::DeviceBuffer<StepScalars<T>> scalars;
  };

  Run<T>& run_;
  const cuda::Stream& stream_;
  std::optional<Reference> reference_;
};

}  // namespace ddp
