// Whole runs: against plain loops, repeated, and when numbers go wrong.

#include <cmath>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "01_single_gpu/train.hpp"
#include "common/data/batch_sampler.hpp"
#include "common/data/dataset.hpp"
#include "common/errors.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/01_single_gpu/reference.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"

namespace ddp {
namespace {

Options on_fashion_mnist(Activation activation, LossKind loss, Precision precision) {
  Options options;
  options.layers = {784, 64, 32, 10};
  options.activation = activation;
  options.loss = loss;
  options.precision = precision;
  options.global_batch = 32;
  options.steps = 200;
  // At 0.05 this small net is at the edge of stability with GELU: a difference of one rounding
  // grows ten thousandfold in 200 steps, in any two correct programs.
  options.learning_rate = 0.01;
  options.quiet = true;
  return options;
}

Options on_synthetic_data() {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 4};
  options.global_batch = 32;
  options.steps = 20;
  options.quiet = true;
  return options;
}

// Empty, with the reason on screen, where the data set is not installed.
std::optional<TrainAndTest> load_or_skip(const Options& options) {
  try {
    return load_data(options);
  } catch (const InputError& error) {
    std::cout << "skipped: " << error.what() << '\n';
    return std::nullopt;
  }
}

ReferenceMlp reference_of(const Options& options) {
  ReferenceMlp reference;
  for (const int size : options.layers) reference.sizes.push_back(static_cast<std::size_t>(size));
  if (options.activation == Activation::gelu) reference.function = ReferenceMlp::Function::gelu;
  if (options.loss == LossKind::mse) reference.error = ReferenceMlp::Error::half_squared;
  reference.momentum = options.momentum;
  reference.weight_decay = options.weight_decay;
  reference.clip_norm = options.clip_norm;
  return reference;
}

template <class T>
void copy_weights(const Model<T>& model, const cuda::Stream& stream, ReferenceMlp& reference) {
  reference.values.clear();
  for (std::size_t p = 0; p < model.parameters().parameters().size(); ++p) {
    const std::vector<T> values = download(model.parameters().value(p), stream);
    reference.values.emplace_back(values.begin(), values.end());
  }
}

// A batch on the host, as the product loads it.
template <class T>
struct HostBatch {
  HostBatch(const Dataset& data, std::span<const std::uint32_t> samples)
      : inputs(samples.size() * static_cast<std::size_t>(data.input_size())),
        labels(samples.size()) {
    data.gather_inputs(samples, inputs.data());
    data.gather_labels(samples, labels.data());
  }
  std::vector<T> inputs;
  std::vector<std::int32_t> labels;
};

}  // namespace

TEST_CASE("200 steps in fp64 on Fashion-MNIST give the losses of plain loops within 1e-12",
          "[long]") {
  struct Case {
    Activation activation;
    LossKind loss;
    double weight_decay, clip_norm;
  };
  for (const Case& c : {Case{Activation::relu, LossKind::cross_entropy, 0, 0},
                        Case{Activation::gelu, LossKind::cross_entropy, 1e-3, 2.5},
                        Case{Activation::relu, LossKind::mse, 1e-3, 1.2}}) {
    INFO("activation " << static_cast<int>(c.activation) << ", loss " << static_cast<int>(c.loss));
    Options options = on_fashion_mnist(c.activation, c.loss, Precision::fp64);
    options.weight_decay = c.weight_decay;
    options.clip_norm = c.clip_norm;
    const std::optional<TrainAndTest> data = load_or_skip(options);
    if (!data) return;
    const TrainingResult result = single_gpu::train(options);

    ReferenceMlp reference = reference_of(options);
    const cuda::Stream stream;
    copy_weights(Model<double>(options, 1, stream), stream, reference);
    BatchSampler sampler(data->train.size(), options.global_batch, options.seed, options.shuffle);
    REQUIRE(result.steps.size() == 200);
    double worst = 0;
    int clipped = 0;
    for (const StepRecord& step : result.steps) {
      const HostBatch<double> batch(data->train, sampler.batch(step.step));
      const double loss = reference.loss_and_gradients(batch.inputs, batch.labels);
      if (c.clip_norm > 0 && reference.gradient_norm() > c.clip_norm) ++clipped;
      reference.update(options.learning_rate);
      worst = std::max(worst, std::abs(step.loss - loss) / loss);
    }
    CHECK(worst < 1e-12);
    if (c.clip_norm > 0) {  // clipping happened, and not always: both ways are compared
      CHECK(clipped > 10);
      CHECK(clipped < 190);
    }
    CHECK(result.steps.back().loss < 0.6 * result.steps.front().loss);  // it learns something
  }
}

TEST_CASE("the short last batch of an epoch is divided by its own number of samples",
          "[not-tsan]") {
  Options options = on_synthetic_data();
  options.precision = Precision::fp64;
  options.global_batch = 3000;  // 10,000 samples: 3000, 3000, 3000, 1000
  options.steps = 9;
  const TrainingResult result = single_gpu::train(options);
  const TrainAndTest data = load_data(options);
  ReferenceMlp reference = reference_of(options);
  const cuda::Stream stream;
  copy_weights(Model<double>(options, 1, stream), stream, reference);
  BatchSampler sampler(data.train.size(), options.global_batch, options.seed, options.shuffle);
  REQUIRE(result.steps.size() == 9);
  for (const StepRecord& step : result.steps) {
    INFO("step " << step.step);
    CHECK(step.samples == (step.step % 4 == 0 ? 1000 : 3000));
    const HostBatch<double> batch(data.train, sampler.batch(step.step));
    const double loss = reference.loss_and_gradients(batch.inputs, batch.labels);
    reference.update(options.learning_rate);
    CHECK(std::abs(step.loss - loss) <= 1e-12 * loss);
  }
}

TEST_CASE(
    "in fp32 each of 200 steps, from its own weights, has the loss of plain loops within 1e-6",
    "[long]") {
  for (const Activation activation : {Activation::relu, Activation::gelu}) {
    const Options options = on_fashion_mnist(activation, LossKind::cross_entropy, Precision::fp32);
    const std::optional<TrainAndTest> data = load_or_skip(options);
    if (!data) return;
    const cuda::Stream stream;
    Model<float> model(options, options.global_batch, stream);
    const Loss<float> loss(options.loss, 10, options.global_batch);
    const Sgd<float> sgd(options, model.parameters(), stream);
    const DeviceScalars<float> scalars;
    ReferenceMlp reference = reference_of(options);
    BatchSampler sampler(data->train.size(), options.global_batch, options.seed, options.shuffle);
    double worst_loss = 0, worst_gradient = 0;
    for (int step = 1; step <= 200; ++step) {
      const HostBatch<float> host(data->train, sampler.batch(step));
      copy_weights(model, stream, reference);
      const double expected =
          reference.loss_and_gradients({host.inputs.begin(), host.inputs.end()}, host.labels);

      const DeviceValues<float> inputs(host.inputs);
      const DeviceValues<std::int32_t> labels(host.labels);
      const Batch<float> batch{inputs.data(), labels.data(), nullptr, options.global_batch};
      clear_sums(scalars.data(), stream);
      const float* outputs = model.forward(batch.inputs, batch.count);
      model.backward(loss.forward_backward(outputs, batch, batch.count, scalars.data(), stream));
      sgd.step(model.parameters(), options.learning_rate, scalars.data(), stream);

      const double mean = static_cast<double>(scalars.read(stream).loss_sum) / batch.count;
      worst_loss = std::max(worst_loss, std::abs(mean - expected) / expected);
      double squares = 0;
      for (std::size_t p = 0; p < reference.gradients.size(); ++p) {
        const std::vector<float> gradient = download(model.parameters().gradient(p), stream);
        for (std::size_t i = 0; i < gradient.size(); ++i) {
          const double difference = static_cast<double>(gradient[i]) - reference.gradients[p][i];
          squares += difference * difference;
        }
      }
      worst_gradient = std::max(worst_gradient, std::sqrt(squares) / reference.gradient_norm());
    }
    CHECK(worst_loss < 1e-6);
    CHECK(worst_gradient < 1e-5);
  }
}

TEST_CASE("the same run twice is equal to the bit, another seed is not", "[not-tsan]") {
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    Options options = on_synthetic_data();
    options.precision = precision;
    options.clip_norm = 0.5;
    const TrainingResult first = single_gpu::train(options);
    const TrainingResult second = single_gpu::train(options);
    CHECK(first.parameter_checksum == second.parameter_checksum);
    REQUIRE(first.steps.size() == 20);
    REQUIRE(second.steps.size() == 20);
    for (std::size_t i = 0; i < 20; ++i) CHECK(first.steps[i].loss == second.steps[i].loss);
    CHECK(first.test.loss == second.test.loss);
    options.seed = 2;
    CHECK(first.parameter_checksum != single_gpu::train(options).parameter_checksum);
  }
}

TEST_CASE("a batch larger than the data set is the data set, and no steps leave the first weights",
          "[not-tsan]") {
  Options options = on_synthetic_data();
  options.global_batch = 100'000;
  options.steps = 2;
  const TrainingResult whole = single_gpu::train(options);
  CHECK(whole.steps.at(0).samples == load_data(options).train.size());
  options.steps = 0;
  const std::uint64_t first = single_gpu::train(options).parameter_checksum;
  CHECK(first != whole.parameter_checksum);
  options.global_batch = 3;
  options.learning_rate = 7;
  CHECK(single_gpu::train(options).parameter_checksum == first);
}

TEST_CASE("FA-03: a rate of 1e6 ends with an error that names the step") {
  Options options = on_synthetic_data();
  options.steps = 1000;
  options.learning_rate = 1e6;
  const std::string message = error_of<NonFiniteError>([&] { single_gpu::train(options); });
  CHECK(message.find("non-finite") != std::string::npos);
  CHECK(message.find("in step ") != std::string::npos);
}

TEST_CASE("FA-03: an input that is not finite ends the run at its step") {
  const Options options = on_synthetic_data();
  for (const std::string kind : {"nan", "inf"}) {
    const ScopedVariable fault("DDP_FAULT", "0:2:" + kind);
    const std::string message = error_of<NonFiniteError>([&] { single_gpu::train(options); });
    CHECK(message.find("non-finite loss") != std::string::npos);
    CHECK(message.find("in step 2 ") != std::string::npos);
  }
}

TEMPLATE_TEST_CASE(
    "FA-03: the weights stay those of the last good step, whatever is enqueued after", "", float,
    double) {
  using T = TestType;
  const Options options = on_synthetic_data();
  const TrainAndTest data = load_data(options);
  const cuda::Stream stream;
  const int count = options.global_batch;
  for (const T bad : {std::numeric_limits<T>::quiet_NaN(), std::numeric_limits<T>::infinity()}) {
    Model<T> model(options, count, stream);
    const Loss<T> loss(options.loss, 4, count);
    const GradientClipper<T> clipper(1, model.parameters().gradients().size());
    const Sgd<T> sgd(options, model.parameters(), stream);
    const DeviceScalars<T> scalars;
    BatchSampler sampler(data.train.size(), count, 1, true);
    std::vector<T> good_weights, good_velocities;
    for (int step = 1; step <= 5; ++step) {
      HostBatch<T> host(data.train, sampler.batch(step));
      if (step == 3) host.inputs[7] = bad;
      const DeviceValues<T> inputs(host.inputs);
      const DeviceValues<std::int32_t> labels(host.labels);
      clear_sums(scalars.data(), stream);
      const T* outputs = model.forward(inputs.data(), count);
      const Batch<T> batch{inputs.data(), labels.data(), nullptr, count};
      model.backward(loss.forward_backward(outputs, batch, count, scalars.data(), stream));
      check_finite(model.parameters().gradients(), scalars.data(), stream);
      clipper.clip(model.parameters().gradients(), scalars.data(), stream);
      sgd.step(model.parameters(), options.learning_rate, scalars.data(), stream);
      stream.synchronize();
      CHECK((scalars.read(stream).flags == 0) == (step < 3));
      const std::vector<T> weights = download(model.parameters().values(), stream);
      const std::vector<T> velocities = download(sgd.velocities(), stream);
      if (step == 2) {
        good_weights = weights;
        good_velocities = velocities;
      } else if (step > 2) {
        CHECK(weights == good_weights);  // false if any were NaN
        CHECK(velocities == good_velocities);
      }
    }
  }
}

TEST_CASE(
    "EN-03: a device that does not exist is refused, with its number and how many there are") {
  int devices = 0;
  cuda::check(cudaGetDeviceCount(&devices));
  for (const int device : {devices, 9999, -1}) {
    Options options = on_synthetic_data();
    options.device = device;
    const std::string message = error_of<DeviceError>([&] { single_gpu::train(options); });
    CHECK(message.find("device " + std::to_string(device) + " ") != std::string::npos);
    CHECK(message.find(std::to_string(devices) + " device") != std::string::npos);
  }
}

}  // namespace ddp
