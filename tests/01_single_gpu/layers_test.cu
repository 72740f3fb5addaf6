// Kernels of a layer, by hand values, with guard cells around every output. The patterns are small
// whole numbers, so that sums are exact and compared to the bit; shapes are odd and not square.

#include <cmath>
#include <limits>
#include <tuple>
#include <utility>
#include <vector>

#include "01_single_gpu/activation.cuh"
#include "01_single_gpu/bias_gradient.cuh"
#include "01_single_gpu/linear.hpp"
#include "common/cuda/blas.hpp"
#include "tests/01_single_gpu/device_values.hpp"

namespace ddp {
namespace {

double pattern(int row, int column) { return (7 * row + 3 * column) % 11 - 5; }
double bias_pattern(int column) { return column % 5 - 2; }

std::vector<double> pattern_matrix(int rows, int columns) {
  std::vector<double> values;
  for (int r = 0; r < rows; ++r) {
    for (int c = 0; c < columns; ++c) values.push_back(pattern(r, c));
  }
  return values;
}

std::vector<double> pattern_bias(int columns) {
  std::vector<double> values;
  for (int c = 0; c < columns; ++c) values.push_back(bias_pattern(c));
  return values;
}

// (rows, columns) around the sizes of a block, and more rows than a grid's y can count.
const std::vector<std::pair<int, int>> shapes = {{1, 1},  {3, 1},  {3, 255}, {3, 257},
                                                 {7, 31}, {9, 33}, {257, 2}, {70000, 1}};

}  // namespace

TEMPLATE_TEST_CASE("bias and ReLU touch each element once and nothing else", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const auto& [rows, columns] : shapes) {
    INFO(rows << " x " << columns);
    const DeviceValues<T> z(as<T>(pattern_matrix(rows, columns)));
    const DeviceValues<T> bias(as<T>(pattern_bias(columns)));
    const DeviceValues<T> activated(z.span().size(), T(-1));
    activate(Activation::relu, z.data(), bias.data(), activated.data(), rows, columns, stream);

    std::vector<T> expected_z, expected_activated;
    for (int r = 0; r < rows; ++r) {
      for (int c = 0; c < columns; ++c) {
        const double value = pattern(r, c) + bias_pattern(c);
        expected_z.push_back(static_cast<T>(value));
        expected_activated.push_back(static_cast<T>(value > 0 ? value : 0));
      }
    }
    CHECK(z.read(stream) == expected_z);
    CHECK(activated.read(stream) == expected_activated);
    CHECK(bias.read(stream) == as<T>(pattern_bias(columns)));
  }
}

TEMPLATE_TEST_CASE("the last layer adds its bias in place", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const DeviceValues<T> z(as<T>({1, 2, 3, -4, -5, -6}));
  const DeviceValues<T> bias(as<T>({10, 20, 30}));
  activate_by<Identity<T>>(z.data(), bias.data(), z.data(), 2, 3, stream);
  CHECK(z.read(stream) == as<T>({11, 22, 33, 6, 15, 24}));
}

TEMPLATE_TEST_CASE("an empty batch launches nothing", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const DeviceValues<T> z(0, T(0));
  const DeviceValues<T> bias(3, T(1));
  activate(Activation::relu, z.data(), bias.data(), z.data(), 0, 3, stream);
  activation_gradient(Activation::relu, z.data(), z.data(), 0, stream);
  CHECK(z.read(stream).empty());
}

TEMPLATE_TEST_CASE("ReLU lets a NaN through", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const DeviceValues<T> z(1, std::numeric_limits<T>::quiet_NaN());
  const DeviceValues<T> bias(1, T(0));
  const DeviceValues<T> activated(1, T(0));
  activate(Activation::relu, z.data(), bias.data(), activated.data(), 1, 1, stream);
  CHECK(std::isnan(activated.read(stream)[0]));
}

TEMPLATE_TEST_CASE("the gradient of ReLU is 1 above 0, else 0", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const int count : {1, 255, 257, 2047, 2049, 5000}) {
    INFO(count << " elements");
    std::vector<T> z, gradient, expected;
    for (int i = 0; i < count; ++i) {
      z.push_back(static_cast<T>(i % 3 - 1));
      gradient.push_back(static_cast<T>(i + 5));
      expected.push_back(i % 3 - 1 > 0 ? gradient.back() : T(0));
    }
    const DeviceValues<T> device_z(z), device_gradient(gradient);
    activation_gradient(Activation::relu, device_z.data(), device_gradient.data(), z.size(),
                        stream);
    CHECK(device_gradient.read(stream) == expected);
    CHECK(device_z.read(stream) == z);
  }
}

TEMPLATE_TEST_CASE("GELU and its slope have the values of tables of the normal distribution", "",
                   float, double) {
  using T = TestType;
  const cuda::Stream stream;
  // z, z Phi(z), Phi(z) + z phi(z), with Phi(1) = 0.8413447460685429, phi(1) = 0.2419707245191434,
  // Phi(2) = 0.9772498680518208, phi(2) = 0.0539909665131881.
  const DeviceValues<T> z(as<T>({0, 1, -1, 2, -2, 100, -100}));
  const DeviceValues<T> bias(7, T(0)), activated(7, T(9)), gradient(as<T>({2, 1, 1, 1, 1, 1, 1}));
  activate(Activation::gelu, z.data(), bias.data(), activated.data(), 1, 7, stream);
  activation_gradient(Activation::gelu, z.data(), gradient.data(), 7, stream);
  const double phi1 = 0.2419707245191434, Phi1 = 0.8413447460685429;
  const double phi2 = 0.0539909665131881, Phi2 = 0.9772498680518208;
  const auto values = activated.read(stream);
  check_close(values, {0, Phi1, Phi1 - 1, 2 * Phi2, 2 * Phi2 - 2, 100, 0}, 2);
  check_close(gradient.read(stream),
              {1, Phi1 + phi1, 1 - Phi1 - phi1, Phi2 + 2 * phi2, 1 - Phi2 - 2 * phi2, 1, 0}, 2);
}

TEMPLATE_TEST_CASE("the bias gradient sums columns", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  std::vector<std::pair<int, int>> sizes = shapes;
  sizes.insert(sizes.end(), {{0, 5}, {4, 127}, {5, 129}, {256, 10}, {3, 384}});
  for (const auto& [rows, columns] : sizes) {
    INFO(rows << " x " << columns);
    const DeviceValues<T> gradient(as<T>(pattern_matrix(rows, columns)));
    std::vector<T> sums;
    for (int c = 0; c < columns; ++c) {
      double sum = 0;
      for (int r = 0; r < rows; ++r) sum += pattern(r, c);
      sums.push_back(static_cast<T>(sum));
    }
    // beta = 0 must not read what was there: NaN * 0 is NaN.
    const DeviceValues<T> overwritten(sums.size(), std::numeric_limits<T>::quiet_NaN());
    bias_gradient(gradient.data(), T(0), overwritten.data(), rows, columns, stream);
    CHECK(overwritten.read(stream) == sums);

    const DeviceValues<T> accumulated(sums.size(), T(1000));
    bias_gradient(gradient.data(), T(1), accumulated.data(), rows, columns, stream);
    for (T& sum : sums) sum += 1000;
    CHECK(accumulated.read(stream) == sums);
  }
}

TEMPLATE_TEST_CASE("row-major products of 3 x 5 by 5 x 2, with each factor transposed or not", "",
                   float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  const std::vector<double> a = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};  // (3, 5)
  const std::vector<double> a_transposed = {1, 6, 11, 2, 7, 12, 3, 8, 13, 4, 9, 14, 5, 10, 15};
  const std::vector<double> b = {1, 0, 0, 1, 2, -1, 1, 1, 0, 3};  // (5, 2)
  const std::vector<double> b_transposed = {1, 0, 2, 1, 0, 0, 1, -1, 1, 3};
  // Row 1: 1 + 2*3 + 4 = 11 and 2 - 3 + 4 + 3*5 = 18; each row further down adds 20, since the
  // columns of b sum to 4 and a grows by 5.
  const std::vector<double> product = {11, 18, 31, 38, 51, 58};
  for (const bool transpose_a : {false, true}) {
    for (const bool transpose_b : {false, true}) {
      INFO("transposed: " << transpose_a << transpose_b);
      const DeviceValues<T> device_a(as<T>(transpose_a ? a_transposed : a));
      const DeviceValues<T> device_b(as<T>(transpose_b ? b_transposed : b));
      const Factor<T> factor_a{device_a.data(), transpose_a ? 5 : 3, transpose_a ? 3 : 5,
                               transpose_a};
      const Factor<T> factor_b{device_b.data(), transpose_b ? 2 : 5, transpose_b ? 5 : 2,
                               transpose_b};
      const DeviceValues<T> result(6, std::numeric_limits<T>::quiet_NaN());
      multiply(blas, factor_a, factor_b, T(0), result.data());
      CHECK(result.read(stream) == as<T>(product));
      multiply(blas, factor_a, factor_b, T(1), result.data());
      CHECK(result.read(stream) == as<T>({22, 36, 62, 76, 102, 116}));
    }
  }
}

}  // namespace ddp
