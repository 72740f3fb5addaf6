// Layers in halves: where numbers are rounded, and in what they are added up.

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "01_single_gpu/sgd.cuh"
#include "06_mixed_precision/cast.cuh"
#include "06_mixed_precision/mixed_model.cuh"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/06_mixed_precision/half_reference.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

template <class T>
std::vector<T> cast_of(const std::vector<float>& values, const cuda::Stream& stream) {
  const DeviceValues<float> from(values);
  const DeviceValues<T> to(values.size(), T(0));
  cast(std::span<const float>(from.span()), to.span(), stream);
  return to.read(stream);
}

template <class T>
std::vector<float> as_floats(const std::vector<T>& values) {
  return {values.begin(), values.end()};
}

// Numbers without a pattern: fractional parts of multiples of the golden ratio, in [-1, 1).
std::vector<float> spread(std::size_t count, int start) {
  std::vector<float> values;
  for (std::size_t i = 0; i < count; ++i) {
    const double multiple = 0.6180339887498949 * (static_cast<double>(i) + start);
    values.push_back(static_cast<float>(2 * (multiple - std::floor(multiple)) - 1));
  }
  return values;
}

// --- casts
// ----------------------------------------------------------------------------------------

TEST_CASE("a cast rounds to the nearest number, an even one in the middle, or to infinity") {
  const cuda::Stream stream;
  const float infinity = HUGE_VALF;
  const std::vector<float> from16 = {1 + 0x1p-11F, 1 + 0x3p-11F, 65504,    65519.996F,
                                     65520,        -65520,       0x1p-24F, 0x1p-25F,
                                     0x1.01p-25F,  -infinity,    0x1p-14F};
  CHECK(as_floats(cast_of<__half>(from16, stream)) ==
        std::vector<float>{1, 1 + 0x1p-9F, 65504, 65504, infinity, -infinity, 0x1p-24F, 0, 0x1p-24F,
                           -infinity, 0x1p-14F});
  const std::vector<float> from_bf16 = {1 + 0x1p-8F, 1 + 0x3p-8F, 257, 259, 0x1.fep127F, 3.4e38F};
  CHECK(as_floats(cast_of<__nv_bfloat16>(from_bf16, stream)) ==
        std::vector<float>{1, 1 + 0x1p-6F, 256, 260, 0x1.fep127F, infinity});
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(static_cast<float>(cast_of<__half>({nan}, stream)[0])));
  CHECK(std::isnan(static_cast<float>(cast_of<__nv_bfloat16>({nan}, stream)[0])));
}

TEMPLATE_TEST_CASE("every element is cast, whatever their number, there and back", "", __half,
                   __nv_bfloat16) {
  const cuda::Stream stream;
  for (const std::size_t count : {0U, 1U, 255U, 2047U, 2048U, 2049U, 5000U}) {
    std::vector<float> values = spread(count, 1), expected;
    for (std::size_t i = 0; i < count; ++i) {
      values[i] = std::ldexp(values[i], static_cast<int>(i % 40) - 24);  // 2^-24 to 2^15
      expected.push_back(static_cast<float>(nearest(values[i], format_of<TestType>)));
    }
    const std::vector<TestType> rounded = cast_of<TestType>(values, stream);
    CHECK(as_floats(rounded) == expected);
    const DeviceValues<TestType> from(rounded);
    const DeviceValues<float> back(count, 0.0F);
    cast(std::span<const TestType>(from.span()), back.span(), stream);
    CHECK(back.read(stream) == expected);
  }
}

TEMPLATE_TEST_CASE("scale_and_cast multiplies before it rounds", "", __half, __nv_bfloat16) {
  const cuda::Stream stream;
  const Format format = format_of<TestType>;
  const float below_one_spacing = std::ldexp(1.0F, -format.bits);  // lost in 1 + that
  for (const float factor : {3.0F, 1024.0F}) {
    std::vector<float> values = {1 + below_one_spacing, 0x1p-34F, 0x3p-34F, 100, 0};
    const std::vector<float> more = spread(2100, 7);
    values.insert(values.end(), more.begin(), more.end());
    std::vector<float> expected;
    for (const float value : values)
      expected.push_back(static_cast<float>(nearest(factor * value, format)));
    if (factor == 3) {
      CHECK(expected[0] == 3 + 4 * below_one_spacing);  // of 3 + 3 spacings; rounded first: 3
    }
    if (factor == 1024 && format.bits == 11) {
      CHECK(expected[1] == 0x1p-24F);   // rounded first: 0
      CHECK(expected[3] == HUGE_VALF);  // 102400
    }
    const DeviceValues<float> from(values), scale({factor});
    const DeviceValues<TestType> to(values.size(), TestType(0));
    scale_and_cast<TestType>(from.span(), scale.data(), to.span(), stream);
    CHECK(as_floats(to.read(stream)) == expected);
  }
}

// --- the model
// ------------------------------------------------------------------------------------

std::vector<double> row(const std::vector<float>& values, std::size_t index, std::size_t size) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(index * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

// A network 4-5-4-3, three samples, and the gradients of their outputs.
struct Numbers {
  explicit Numbers(int start) {
    for (const std::size_t size : {20U, 5U, 20U, 4U, 12U, 3U}) {
      values.push_back(spread(size, start));
      start += 100;
    }
    inputs = spread(samples * 4, start);
    gradients = spread(samples * 3, start + 100);
    for (float& g : gradients) g /= scale;
  }
  Reference reference(const Format& format, bool relu) const {
    std::vector<std::vector<double>> in_doubles;
    for (const auto& value : values) in_doubles.emplace_back(value.begin(), value.end());
    Reference result(format, relu, {4, 5, 4, 3}, in_doubles);
    for (std::size_t s = 0; s < samples; ++s) {
      std::vector<double> scaled = row(gradients, s, 3);
      for (double& g : scaled) g *= scale;
      result.one_sample(row(inputs, s, 4), scaled);
    }
    return result;
  }

  static constexpr std::size_t samples = 3;
  static constexpr float scale = 1024;
  std::vector<std::vector<float>> values;
  std::vector<float> inputs, gradients;
};

TEMPLATE_TEST_CASE("a model in halves rounds its activations, and adds up in fp32", "", __half,
                   __nv_bfloat16) {
  for (const Activation activation : {Activation::relu, Activation::gelu}) {
    const bool relu = activation == Activation::relu;
    INFO((relu ? "relu" : "gelu"));
    // The first numbers for which it is sure how they are rounded.
    int start = 1;
    while (start < 50 && Numbers(start).reference(format_of<TestType>, relu).too_near) ++start;
    const Numbers numbers(start);
    const Reference reference = numbers.reference(format_of<TestType>, relu);
    REQUIRE_FALSE(reference.too_near);

    Options options;
    options.layers = {4, 5, 4, 3};
    options.activation = activation;
    const cuda::Stream stream;
    const DeviceValues<float> loss_scale({Numbers::scale});
    MixedModel<TestType> model(options, Numbers::samples, stream, loss_scale.data());
    for (std::size_t p = 0; p < 6; ++p) {
      cuda::upload(model.parameters().value(p).data(), std::span(numbers.values[p]), stream);
    }
    model.cast_weights();
    const DeviceValues<float> inputs(numbers.inputs), gradients(numbers.gradients);
    const float* outputs = model.forward(inputs.data(), Numbers::samples);
    const std::vector<float> found = cuda::download(outputs, reference.outputs.size(), stream);
    CHECK(std::vector<double>(found.begin(), found.end()) == reference.outputs);
    model.backward(gradients.data());
    for (std::size_t p = 0; p < 6; ++p) {
      const std::vector<float> actual = download(model.parameters().gradient(p), stream);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        INFO("parameter " << p << ", element " << i);
        const double bound = Numbers::samples * ulp * reference.sizes_of_terms[p][i];
        CHECK(std::abs(actual[i] - reference.gradients[p][i]) <= bound);
      }
    }
  }
}

TEMPLATE_TEST_CASE("sums of halves are made in fp32: 2049 ones are 2049", "", __half,
                   __nv_bfloat16) {
  // In fp16 2048 + 1 is 2048 again, in bf16 256 + 1 is 256. A bias gradient is added up by four
  // warps, so each gets as many. 8196 = 2 * 4098, and 4098 is the next number of fp16 after 4096.
  constexpr int rows = 4 * 2049, inputs = 2051;
  Options options;
  options.layers = {inputs, 1};
  const cuda::Stream stream;
  const DeviceValues<float> one({1.0F});
  MixedModel<TestType> wide(options, 1, stream, one.data());
  const std::vector<float> ones(rows, 1.0F);
  const DeviceValues<float> device_ones(ones);
  cuda::upload(wide.parameters().value(0).data(), std::span(ones).first(inputs), stream);
  wide.cast_weights();
  // 2051 is in the middle between 2050 and 2052, in bf16 it is nearest to 2048.
  const float sum = cuda::download(wide.forward(device_ones.data(), 1), 1, stream)[0];
  CHECK(sum == (format_of<TestType>.bits == 11 ? 2052 : 2048));

  options.layers = {1, 1};
  MixedModel<TestType> tall(options, rows, stream, one.data());
  tall.cast_weights();
  tall.forward(device_ones.data(), rows);
  tall.backward(device_ones.data());
  tall.backward(device_ones.data(), 1);  // as the next micro-batch
  for (std::size_t p = 0; p < 2; ++p) {
    CHECK(download(tall.parameters().gradient(p), stream) == std::vector<float>{2 * rows});
  }
}

// --- master weights
// -------------------------------------------------------------------------------

// The weight in fp32 and the one that the layer computes with, from 1 after 100 steps with a
// gradient of 1.
struct Weights {
  float master, half;
};
template <class T>
Weights hundred_steps(double learning_rate, bool master_weights) {
  Options options;
  options.layers = {1, 1};
  options.momentum = 0;
  options.master_weights = master_weights;
  const cuda::Stream stream;
  const DeviceValues<float> one({1.0F});
  MixedModel<T> model(options, 1, stream, one.data());
  const ParameterStore<float>& parameters = model.parameters();
  const Sgd<float> sgd(options, parameters, stream);
  const DeviceScalars<float> scalars;
  const std::vector<float> ones = {1.0F};
  cuda::upload(parameters.value(0).data(), std::span(ones), stream);
  cuda::upload(parameters.gradient(0).data(), std::span(ones), stream);
  for (int step = 0; step < 100; ++step) {
    model.cast_weights();
    sgd.step(parameters, learning_rate, scalars.data(), stream);
  }
  model.cast_weights();
  const float half = cuda::download(model.forward(one.data(), 1), 1, stream)[0];
  return {download(parameters.value(0), stream)[0], half};
}

TEST_CASE("MP-06: master weights keep what the halves cannot hold") {
  const Weights fp16 = hundred_steps<__half>(1e-4, true);
  CHECK(fp16.master == 0.98999834F);
  CHECK(fp16.half == 0.990234375F);
  const Weights bf16 = hundred_steps<__nv_bfloat16>(6e-4, true);
  CHECK(bf16.master == 0.94000196F);
  // 0.94000196 lies between 0.9375 and 0.94140625.
  CHECK(bf16.half == 0.94140625F);
}

TEST_CASE("MP-06: without them a step below half a spacing changes nothing") {
  const Weights fp16 = hundred_steps<__half>(1e-4, false);
  CHECK(fp16.master == 1.0F);
  CHECK(fp16.half == 1.0F);
  CHECK(hundred_steps<__nv_bfloat16>(6e-4, false).master == 1.0F);
}

}  // namespace
}  // namespace ddp
