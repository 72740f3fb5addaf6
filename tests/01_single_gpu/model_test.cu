// ParameterStore, Model and evaluation; gradients against central differences.

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "01_single_gpu/evaluate.cuh"
#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

Options small(Activation activation, LossKind loss) {
  Options options;
  options.layers = {5, 7, 4, 3};
  options.activation = activation;
  options.loss = loss;
  return options;
}

// Numbers without a pattern: fractional parts of multiples of the golden ratio, in [-1, 1).
template <class T>
std::vector<T> spread(std::size_t count, int start) {
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double multiple = 0.6180339887498949 * (static_cast<double>(i) + start);
    values.push_back(static_cast<T>(2 * (multiple - std::floor(multiple)) - 1));
  }
  return values;
}

template <class T>
struct Fixture {
  explicit Fixture(const Options& options, int count = 6)
      : model(options, count, stream),
        loss(options.loss, 3, count),
        inputs(spread<T>(static_cast<std::size_t>(count) * 5, 1)),
        targets(spread<T>(static_cast<std::size_t>(count) * 3, 1000)),
        labels({2, 0, 1, 1, 2, 0}),
        batch({inputs.data(), labels.data(), targets.data(), count}) {
    for (std::size_t p = 1; p < 6; p += 2) {  // biases other than zero
      set(model.parameters().value(p), spread<T>(model.parameters().value(p).size(), 50));
    }
  }
  void set(std::span<T> where, const std::vector<T>& values) {
    cuda::upload(where.data(), std::span<const T>(values), stream);
  }
  // Mean loss; leaves the gradient of the outputs for backward().
  double mean_loss() {
    clear_sums(scalars.data(), stream);
    const T* outputs = model.forward(batch.inputs, batch.count);
    output_gradient = loss.forward_backward(outputs, batch, batch.count, scalars.data(), stream);
    return static_cast<double>(scalars.read(stream).loss_sum) / batch.count;
  }

  cuda::Stream stream;
  Model<T> model;
  Loss<T> loss;
  DeviceScalars<T> scalars;
  DeviceValues<T> inputs, targets;
  DeviceValues<std::int32_t> labels;
  Batch<T> batch;
  const T* output_gradient = nullptr;
};

}  // namespace

TEST_CASE("gradients of every layer, activation and loss equal central differences in fp64",
          "[not-tsan]") {
  // (L(w + h) - L(w - h)) / 2h is off by h^2 / 6 times the third derivative, about 2e-11 here, and
  // by the rounding of L over h, about 2e-16 / 1e-5. A bound of 5e-10 on gradients of 0.01 to 1
  // leaves a wrong factor, index or sign nowhere to hide. No ReLU's input may be within h of zero,
  // or the difference would straddle the kink: then this fails, for these fixed numbers none is.
  constexpr double h = 1e-5;
  for (const Activation activation : {Activation::relu, Activation::gelu}) {
    for (const LossKind kind : {LossKind::cross_entropy, LossKind::mse}) {
      INFO("activation " << static_cast<int>(activation) << ", loss " << static_cast<int>(kind));
      Fixture<double> f(small(activation, kind));
      f.mean_loss();
      f.model.backward(f.output_gradient);
      const ParameterStore<double>& parameters = f.model.parameters();
      for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
        const std::vector<double> gradient = download(parameters.gradient(p), f.stream);
        const std::vector<double> values = download(parameters.value(p), f.stream);
        CHECK(*std::max_element(gradient.begin(), gradient.end()) > 0.01);
        for (std::size_t i = 0; i < values.size(); ++i) {
          INFO(parameters.parameters()[p].name << "[" << i << "]");
          const auto loss_at = [&](double value) {
            std::vector<double> moved = values;
            moved[i] = value;
            f.set(parameters.value(p), moved);
            return f.mean_loss();
          };
          const double difference = (loss_at(values[i] + h) - loss_at(values[i] - h)) / (2 * h);
          CHECK(std::abs(gradient[i] - difference) < 5e-10);
        }
        f.set(parameters.value(p), values);
      }
    }
  }
}

TEMPLATE_TEST_CASE("backward overwrites gradients with beta 0 and adds to them with beta 1", "",
                   float, double) {
  using T = TestType;
  Fixture<T> f(small(Activation::relu, LossKind::cross_entropy));
  const ParameterStore<T>& parameters = f.model.parameters();
  f.set(parameters.gradients(),
        std::vector<T>(parameters.gradients().size(), std::numeric_limits<T>::quiet_NaN()));
  f.mean_loss();
  f.model.backward(f.output_gradient);
  std::vector<std::vector<double>> once;
  for (std::size_t p = 0; p < 6; ++p) {
    const std::vector<T> gradient = download(parameters.gradient(p), f.stream);
    once.emplace_back(gradient.begin(), gradient.end());
  }
  f.model.backward(f.output_gradient, T(1));
  for (std::size_t p = 0; p < 6; ++p) {
    for (double& g : once[p]) g *= 2;
    check_close(download(parameters.gradient(p), f.stream), once[p], 4);
  }
}

TEST_CASE("a gradient is announced once it is enqueued, the last parameter first") {
  Fixture<float> f(small(Activation::relu, LossKind::cross_entropy));
  const std::vector<std::size_t> expected = {5, 4, 3, 2, 1, 0};
  std::vector<std::size_t> announced;
  const auto note = [&](std::size_t parameter) {
    // Whoever hears of it may use it in this stream: poison what is still to come, and see that
    // what was announced stays.
    announced.push_back(parameter);
    const std::span<float> gradient = f.model.parameters().gradient(parameter);
    cuda::clear_async(gradient.data(), gradient.size(), f.stream);
  };
  f.mean_loss();
  f.model.backward(f.output_gradient, 0, note);
  CHECK(announced == expected);
  // Each was cleared after the work that made it, so nothing is left.
  for (const float g : download(f.model.parameters().gradients(), f.stream)) CHECK(g == 0.0F);

  announced.clear();
  f.model.forward(f.inputs.data(), 0);
  f.model.backward(f.output_gradient, 0, note);
  CHECK(announced == expected);
}

TEMPLATE_TEST_CASE("SH-02: an empty batch has a gradient of zero, or adds nothing", "", float,
                   double) {
  using T = TestType;
  Fixture<T> f(small(Activation::gelu, LossKind::mse));
  const std::span<T> gradients = f.model.parameters().gradients();
  f.set(gradients, std::vector<T>(gradients.size(), T(3)));
  f.batch.count = 0;
  f.model.forward(nullptr, 0);
  const T* gradient = f.loss.forward_backward(nullptr, f.batch, 4, f.scalars.data(), f.stream);
  f.model.backward(gradient, T(1));
  CHECK(download(gradients, f.stream) == std::vector<T>(gradients.size(), T(3)));
  f.model.backward(gradient);
  CHECK(download(gradients, f.stream) == std::vector<T>(gradients.size(), T(0)));
  CHECK(f.scalars.read(f.stream).loss_sum == T(0));
  CHECK(f.scalars.read(f.stream).flags == 0);
}

TEMPLATE_TEST_CASE(
    "parameters lie in one buffer, each at a multiple of 256 bytes, padded with zeros", "", float,
    double) {
  using T = TestType;
  const cuda::Stream stream;
  Options options;
  options.layers = {783, 127, 9};
  const Model<T> model(options, 1, stream);
  const ParameterStore<T>& store = model.parameters();
  REQUIRE(store.parameters().size() == 4);
  const std::vector<std::string> names = {"layers.0.weight", "layers.0.bias", "layers.1.weight",
                                          "layers.1.bias"};
  const std::vector<std::vector<int>> sizes = {{127, 783}, {127}, {9, 127}, {9}};
  const std::vector<std::size_t> counts = {99'441, 127, 1'143, 9};
  std::vector<T> padding = download(store.values(), stream);
  std::size_t end = 0;
  for (std::size_t p = 0; p < 4; ++p) {
    const Parameter& parameter = store.parameters()[p];
    CHECK(parameter.name == names[p]);
    CHECK(parameter.shape == sizes[p]);
    CHECK(parameter.count == counts[p]);
    CHECK(parameter.decays == (p % 2 == 0));
    CHECK(parameter.offset * sizeof(T) % 256 == 0);
    CHECK(parameter.offset >= end);
    end = parameter.offset + parameter.count;
    CHECK(store.value(p).data() == store.values().data() + parameter.offset);
    CHECK(store.gradient(p).data() == store.gradients().data() + parameter.offset);
    CHECK(store.value_views()[p].size() == counts[p]);
    CHECK(store.value_views()[p].data() == store.value(p).data());
    std::fill_n(padding.begin() + static_cast<std::ptrdiff_t>(parameter.offset), counts[p], T(0));
  }
  CHECK(end <= store.values().size());
  CHECK(store.values().size() - end < 256 / sizeof(T));
  CHECK(std::all_of(padding.begin(), padding.end(), [](T value) { return value == T(0); }));
  for (const T gradient : download(store.gradients(), stream)) REQUIRE(gradient == T(0));
}

TEST_CASE(
    "first weights are uniform within sqrt(6 / inputs), keyed by seed, the same in fp32 and fp64") {
  const cuda::Stream stream;
  Options options;
  options.layers = {384, 300, 10};
  const Model<double> model(options, 1, stream);
  const Model<float> rounded(options, 1, stream);
  options.seed = 2;
  const Model<double> other(options, 1, stream);

  const auto weights = download(model.parameters().value(0), stream);
  const double bound = 0.125;  // sqrt(6 / 384)
  const auto [least, most] = std::minmax_element(weights.begin(), weights.end());
  CHECK(*least >= -bound);
  CHECK(*most < bound);
  CHECK(*least < -0.9999 * bound);
  CHECK(*most > 0.9999 * bound);
  // Of 115,200 draws the mean lies within 4 standard deviations of 0, the mean square of b^2 / 3.
  const auto count = static_cast<double>(weights.size());
  const double mean = std::accumulate(weights.begin(), weights.end(), 0.0) / count;
  const double square =
      std::inner_product(weights.begin(), weights.end(), weights.begin(), 0.0) / count;
  CHECK(std::abs(mean) < 4 * bound / std::sqrt(3 * count));
  CHECK(std::abs(square / (bound * bound) - 1.0 / 3) < 4 * std::sqrt(4.0 / 45 / count));

  for (std::size_t p = 0; p < 4; ++p) {
    const auto in_double = download(model.parameters().value(p), stream);
    CHECK(download(rounded.parameters().value(p), stream) == as<float>(in_double));
    if (p % 2 == 0) {
      CHECK(in_double != download(other.parameters().value(p), stream));
    } else {
      CHECK(in_double == std::vector<double>(in_double.size(), 0.0));
    }
  }
  // Layers do not share their numbers.
  const auto second = download(model.parameters().value(2), stream);
  CHECK(second[0] / std::sqrt(6.0 / 300) != weights[0] / bound);
}

TEMPLATE_TEST_CASE("SH-01: 10 samples, accuracy 0.9, however the test set is cut", "", float,
                   double) {
  using T = TestType;
  // Images of two pixels; the label says which is brighter, but for sample 0. Weights are the unit
  // matrix, so that the larger logit is that of the brighter pixel.
  const TemporaryFolder folder;
  Bytes pixels, labels;
  for (unsigned s = 0; s < 10; ++s) {
    pixels.insert(pixels.end(), {static_cast<std::uint8_t>(20 * s + 10), 105});
    labels.push_back(20 * s + 10 > 105 ? 0 : 1);
  }
  const Bytes images = idx_bytes(0x803, {10, 1, 2}, pixels);
  write_file(folder / "train-images-idx3-ubyte", images);
  write_file(folder / "train-labels-idx1-ubyte", idx_bytes(0x801, {10}, labels));
  labels[0] = 0;
  write_file(folder / "t10k-images-idx3-ubyte", images);
  write_file(folder / "t10k-labels-idx1-ubyte", idx_bytes(0x801, {10}, labels));

  Options options;
  options.data = folder.path().string();
  options.layers = {2, 2};
  const TrainAndTest data = load_data(options);
  const cuda::Stream stream;
  // By hand: logits are (pixel / 255 - mean) / deviation.
  double expected_loss = 0;
  for (unsigned s = 0; s < 10; ++s) {
    const double gap = (20.0 * s + 10 - 105) / 255 / data.test.input_std();
    expected_loss += std::log1p(std::exp(labels[s] == 0 ? -gap : gap)) / 10;
  }
  for (const int batch : {1, 3, 4, 7, 10, 16}) {
    INFO("batches of " << batch);
    Model<T> model(options, batch, stream);
    cuda::upload<T>(model.parameters().value(0).data(), as<T>({1, 0, 0, 1}), stream);
    const Loss<T> loss(options.loss, 2, batch);
    const EvaluationSums sums = evaluate(model, loss, data.test, all_samples(data.test), stream);
    CHECK(sums.correct == 9);
    CHECK(sums.samples == 10);
    CHECK(std::abs(sums.loss_sum / 10 - expected_loss) < 8 * std::numeric_limits<T>::epsilon());
  }
}

TEST_CASE("data without labels has no accuracy") {
  Options options;
  options.data = "synthetic";
  options.layers = {8, 3};
  options.loss = LossKind::mse;
  const TrainAndTest data = load_data(options);
  const cuda::Stream stream;
  Model<float> model(options, 64, stream);
  const EvaluationSums sums =
      evaluate(model, Loss<float>(options.loss, 3, 64), data.test, all_samples(data.test), stream);
  CHECK(std::isnan(sums.correct));
  CHECK(std::isfinite(sums.loss_sum));
}

}  // namespace ddp
