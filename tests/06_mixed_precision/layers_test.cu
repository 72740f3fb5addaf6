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
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

// A number format, by its definition: so many bits of mantissa with the one that is not stored, the
// exponent of its smallest number, its largest number.
struct Format {
  int bits, lowest;
  double largest;
};
template <class T>
constexpr Format format_of = {11, -24, 65504};
template <>
constexpr Format format_of<__nv_bfloat16> = {8, -133, 0x1.fep127};

double spacing_at(double x, const Format& format) {
  return std::ldexp(1.0, std::max(std::ilogb(x) - format.bits + 1, format.lowest));
}

// The number of the format that is nearest to x, an even one in the middle.
double nearest(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double spacing = spacing_at(x, format);
  const double rounded = std::nearbyint(x / spacing) * spacing;
  return std::abs(rounded) > format.largest ? std::copysign(HUGE_VAL, x) : rounded;
}

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

constexpr double ulp = 0x1p-24;  // the largest relative error of one rounding to fp32

// The same forward and backward pass in plain loops over doubles, rounded to the format where the
// design says so and nowhere else. The product adds in fp32: its sum of n products, which are
// exact, is off by at most n ulp of the sum of their absolute values, in whatever order. Where no
// number that is to be rounded is so near to the middle between two numbers of the format, both
// round alike, and the product must give these very bits.
class Reference {
 public:
  Reference(const Format& format, bool relu, std::vector<std::size_t> sizes,
            std::vector<std::vector<double>> values)
      : format_(format), relu_(relu), sizes_(std::move(sizes)), values_(std::move(values)) {
    for (auto& value : values_) round_all(value);
    for (const auto& value : values_) {
      gradients.emplace_back(value.size(), 0.0);
      sizes_of_terms.emplace_back(value.size(), 0.0);
    }
  }

  bool too_near = false;                            // to the middle between two numbers
  std::vector<double> outputs;                      // of all samples
  std::vector<std::vector<double>> gradients;       // exact sums
  std::vector<std::vector<double>> sizes_of_terms;  // sums of absolute values of their terms

  void one_sample(std::vector<double> inputs, std::vector<double> scaled_gradient) {
    round_all(inputs);
    std::vector<std::vector<double>> a = {inputs}, z = {{}};
    const std::size_t layers = sizes_.size() - 1;
    for (std::size_t l = 0; l < layers; ++l) {
      std::vector<double> sums, activated;
      for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < sizes_[l]; ++i) {
          const double term = values_[2 * l][o * sizes_[l] + i] * a[l][i];
          sum += term;
          size += std::abs(term);
        }
        const double product = round(sum, static_cast<double>(sizes_[l]) * size);
        const double bias = values_[2 * l + 1][o];
        sums.push_back(round(product + bias, std::abs(product + bias)));
        // An erf and two products in fp32, each within a few roundings.
        activated.push_back(round(f(sums.back()), relu_ ? 0 : 8 * std::abs(sums.back())));
      }
      z.push_back(sums);
      a.push_back(activated);
    }
    outputs.insert(outputs.end(), z.back().begin(), z.back().end());

    std::vector<double> delta = scaled_gradient;
    round_all(delta);
    for (std::size_t l = layers; l-- > 0;) {
      for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
        add(2 * l + 1, o, delta[o]);
        for (std::size_t i = 0; i < sizes_[l]; ++i) {
          add(2 * l, o * sizes_[l] + i, delta[o] * a[l][i]);
        }
      }
      if (l == 0) break;
      std::vector<double> before;
      for (std::size_t i = 0; i < sizes_[l]; ++i) {
        double sum = 0, size = 0;
        for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
          const double term = delta[o] * values_[2 * l][o * sizes_[l] + i];
          sum += term;
          size += std::abs(term);
        }
        const double dx = round(sum, static_cast<double>(sizes_[l + 1]) * size);
        before.push_back(round(dx * slope(z[l][i]), relu_ ? 0 : 16 * std::abs(dx)));
      }
      delta = before;
    }
  }

 private:
  // `error`, in ulp: by how much the product's x may differ.
  double round(double x, double error) {
    const double middle = (std::floor(x / spacing_at(x, format_)) + 0.5) * spacing_at(x, format_);
    if (x != 0 && std::abs(x - middle) <= error * ulp) too_near = true;
    return nearest(x, format_);
  }
  void round_all(std::vector<double>& values) const {
    for (double& value : values) value = nearest(value, format_);
  }
  void add(std::size_t parameter, std::size_t element, double term) {
    gradients[parameter][element] += term;
    sizes_of_terms[parameter][element] += std::abs(term);
  }
  double f(double z) const {
    return relu_ ? std::max(z, 0.0) : z / 2 * std::erfc(-z / std::sqrt(2));
  }
  double slope(double z) const {
    if (relu_) return z > 0 ? 1 : 0;
    return std::erfc(-z / std::sqrt(2)) / 2 +
           z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  }

  Format format_;
  bool relu_;
  std::vector<std::size_t> sizes_;
  std::vector<std::vector<double>> values_;
};

std::vector<double> row(const std::vector<float>& values, std::size_t index, std::size_t size) {
  const auto begin = values.begin() + static_cast<std::ptrdiff_t>(index * size);
  return {begin, begin + static_cast<std::ptrdiff_t>(size)};
}

TEMPLATE_TEST_CASE("a model in halves rounds its activations, and adds up in fp32", "", __half,
                   __nv_bfloat16) {
  constexpr std::size_t count = 3;
  constexpr float scale = 1024;
  const std::vector<std::size_t> sizes = {4, 5, 4, 3};
  for (const Activation activation : {Activation::relu, Activation::gelu}) {
    const bool relu = activation == Activation::relu;
    INFO((relu ? "relu" : "gelu"));
    Options options;
    options.layers = {4, 5, 4, 3};
    options.activation = activation;
    const cuda::Stream stream;
    const DeviceValues<float> loss_scale({scale});
    MixedModel<TestType> model(options, count, stream, loss_scale.data());
    std::vector<std::vector<double>> values;
    for (std::size_t p = 0; p < 6; ++p) {
      const std::span<float> value = model.parameters().value(p);
      const std::vector<float> numbers = spread(value.size(), 100 * static_cast<int>(p) + 11);
      cuda::upload(value.data(), std::span<const float>(numbers), stream);
      values.emplace_back(numbers.begin(), numbers.end());
    }
    model.cast_weights();
    const std::vector<float> inputs = spread(count * 4, 2000);
    std::vector<float> gradients = spread(count * 3, 3000);
    for (float& g : gradients) g /= scale;  // near the smallest numbers of fp16, unscaled

    Reference reference(format_of<TestType>, relu, sizes, values);
    for (std::size_t s = 0; s < count; ++s) {
      std::vector<double> scaled = row(gradients, s, 3);
      for (double& g : scaled) g *= scale;
      reference.one_sample(row(inputs, s, 4), scaled);
    }
    REQUIRE_FALSE(reference.too_near);  // then choose other numbers

    const DeviceValues<float> device_inputs(inputs), device_gradients(gradients);
    const float* outputs = model.forward(device_inputs.data(), count);
    const std::vector<float> found = cuda::download(outputs, count * 3, stream);
    CHECK(std::vector<double>(found.begin(), found.end()) == reference.outputs);
    model.backward(device_gradients.data());
    for (std::size_t p = 0; p < 6; ++p) {
      const std::vector<float> actual = download(model.parameters().gradient(p), stream);
      for (std::size_t i = 0; i < actual.size(); ++i) {
        INFO("parameter " << p << ", element " << i);
        const double bound = count * ulp * reference.sizes_of_terms[p][i];
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
