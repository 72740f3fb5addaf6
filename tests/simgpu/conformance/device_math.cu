// Mathematical functions and vector types in kernels. The bounds are those of the appendix
// "Mathematical Functions" of the CUDA C++ Programming Guide, in units of the last place (ulp).
#include <cmath>
#include <limits>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

struct Results {
  float exp, log, log1p, tanh, erf, rsqrt, fast_exp;
  float sqrt, fma, least, greatest, absolute, floor;  // exact
};

__global__ void evaluate(const float* inputs, Results* results) {
  const float x = inputs[threadIdx.x];
  Results& mine = results[threadIdx.x];
  mine.exp = expf(x);
  mine.log = logf(x);
  mine.log1p = log1pf(x);
  mine.tanh = tanhf(x);
  mine.erf = erff(x);
  mine.rsqrt = rsqrtf(x);
  mine.fast_exp = __expf(x);
  mine.sqrt = sqrtf(x);
  mine.fma = fmaf(x, x, -1.0F);
  mine.least = fminf(x, 1.0F);
  mine.greatest = fmaxf(x, 1.0F);
  mine.absolute = fabsf(-x);
  mine.floor = floorf(x);
}

// How far `seen` is from `exact`, in ulps of a float of that size.
double ulps(float seen, double exact) {
  const float rounded = std::fabs(static_cast<float>(exact));
  const double spacing =
      static_cast<double>(std::nextafter(rounded, std::numeric_limits<float>::infinity())) -
      static_cast<double>(rounded);
  return std::fabs(static_cast<double>(seen) - exact) / spacing;
}

TEST_CASE("single-precision functions keep their documented error bounds", "[math]") {
  const cuda::Stream stream;
  std::vector<float> inputs;
  for (float x = 0.01F; x < 8.0F; x *= 1.07F) inputs.push_back(x);
  const unsigned count = static_cast<unsigned>(inputs.size());
  const cuda::DeviceBuffer<float> buffer = on_device(inputs);
  const cuda::DeviceBuffer<Results> output(count);
  cuda::launch<evaluate>({stream, 1, count}, buffer.data(), output.data());
  const std::vector<Results> results = read_back(output);
  for (unsigned i = 0; i < count; ++i) {
    const float x = inputs[i];
    const double wide = static_cast<double>(x);
    const Results& seen = results[i];
    CAPTURE(x);
    CHECK(ulps(seen.exp, std::exp(wide)) <= 2);
    CHECK(ulps(seen.log, std::log(wide)) <= 1);
    CHECK(ulps(seen.log1p, std::log1p(wide)) <= 1);
    CHECK(ulps(seen.tanh, std::tanh(wide)) <= 2);
    CHECK(ulps(seen.erf, std::erf(wide)) <= 2);
    CHECK(ulps(seen.rsqrt, 1 / std::sqrt(wide)) <= 2);
    CHECK(ulps(seen.fast_exp, std::exp(wide)) <= 2 + std::floor(std::fabs(1.173 * wide)));
    CHECK(seen.sqrt == std::sqrt(x));
    CHECK(seen.fma == std::fma(x, x, -1.0F));
    CHECK(seen.least == std::fmin(x, 1.0F));
    CHECK(seen.greatest == std::fmax(x, 1.0F));
    CHECK(seen.absolute == x);
    CHECK(seen.floor == std::floor(x));
  }
}

__global__ void evaluate_special(const float* inputs, int* finite, int* not_a_number, int* infinite,
                                 float* least) {
  const float x = inputs[threadIdx.x];
  finite[threadIdx.x] = isfinite(x) ? 1 : 0;
  not_a_number[threadIdx.x] = isnan(x) ? 1 : 0;
  infinite[threadIdx.x] = isinf(x) ? 1 : 0;
  least[threadIdx.x] = fminf(x, 3.0F);
}

TEST_CASE("isfinite, isnan, isinf; fminf takes a number over NaN", "[math]") {
  const cuda::Stream stream;
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const cuda::DeviceBuffer<float> inputs =
      on_device<float>({0, -0.0F, 3.4e38F, infinity, -infinity, nan});
  const cuda::DeviceBuffer<int> finite(6), not_a_number(6), infinite(6);
  const cuda::DeviceBuffer<float> least(6);
  cuda::launch<evaluate_special>({stream, 1, 6}, inputs.data(), finite.data(), not_a_number.data(),
                                 infinite.data(), least.data());
  CHECK(read_back(finite) == std::vector<int>{1, 1, 1, 0, 0, 0});
  CHECK(read_back(not_a_number) == std::vector<int>{0, 0, 0, 0, 0, 1});
  CHECK(read_back(infinite) == std::vector<int>{0, 0, 0, 1, 1, 0});
  CHECK(read_back(least) == std::vector<float>{0, 0, 3, 3, -infinity, 3});
}

__global__ void evaluate_double(double* results) {
  const double x = 0.7 + threadIdx.x;
  double* const mine = results + threadIdx.x * 6;
  mine[0] = exp(x);
  mine[1] = log(x);
  mine[2] = tanh(x);
  mine[3] = erf(x);
  mine[4] = sqrt(x);
  mine[5] = fma(x, x, -0.25);
}

TEST_CASE("double-precision functions are within two units of the last place", "[math]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<double> buffer(4 * 6);
  cuda::launch<evaluate_double>({stream, 1, 4}, buffer.data());
  const std::vector<double> seen = read_back(buffer);
  const double relative = 2 * std::numeric_limits<double>::epsilon();
  for (unsigned i = 0; i < 4; ++i) {
    const double x = 0.7 + i;
    const double* const mine = seen.data() + i * 6;
    CHECK(std::fabs(mine[0] - std::exp(x)) <= relative * std::exp(x));
    CHECK(std::fabs(mine[1] - std::log(x)) <= relative * std::fabs(std::log(x)));
    CHECK(std::fabs(mine[2] - std::tanh(x)) <= relative * std::tanh(x));
    CHECK(std::fabs(mine[3] - std::erf(x)) <= relative * std::erf(x));
    CHECK(mine[4] == std::sqrt(x));
    CHECK(mine[5] == std::fma(x, x, -0.25));
  }
}

__global__ void scale_vectors(const float4* input, float4* output, float factor) {
  const float4 value = __ldg(&input[threadIdx.x]);
  output[threadIdx.x] =
      make_float4(value.x * factor, value.y * factor, value.z * factor, value.w * factor);
}

TEST_CASE("float4 reads and writes four floats that lie side by side", "[math]") {
  const cuda::Stream stream;
  std::vector<float> values(4 * 33), expected(4 * 33);
  for (unsigned i = 0; i < values.size(); ++i) {
    values[i] = static_cast<float>(i);
    expected[i] = 2 * values[i];
  }
  const cuda::DeviceBuffer<float> input = on_device(values);
  const cuda::DeviceBuffer<float> output(values.size());
  cuda::launch<scale_vectors>({stream, 1, 33}, reinterpret_cast<const float4*>(input.data()),
                              reinterpret_cast<float4*>(output.data()), 2);
  CHECK(read_back(output) == expected);
}

struct Vectors {
  float2 pair;
  int4 whole;
  double2 wide;
};

__global__ void make_vectors(Vectors* vectors) {
  vectors->pair = make_float2(1.5F, 2.5F);
  vectors->whole = make_int4(1, -2, 3, -4);
  vectors->wide = make_double2(0.125, -8);
}

TEST_CASE("vector types have CUDA's sizes and alignments", "[math]") {
  static_assert(sizeof(float2) == 8 && alignof(float2) == 8);
  static_assert(sizeof(float4) == 16 && alignof(float4) == 16);
  static_assert(sizeof(int4) == 16 && alignof(int4) == 16);
  static_assert(sizeof(double2) == 16 && alignof(double2) == 16);
  const cuda::Stream stream;
  const cuda::DeviceBuffer<Vectors> buffer(1);
  cuda::launch<make_vectors>({stream, 1, 1}, buffer.data());
  const Vectors seen = read_back(buffer).front();
  CHECK(seen.pair.x == 1.5F);
  CHECK(seen.pair.y == 2.5F);
  CHECK(seen.whole.x == 1);
  CHECK(seen.whole.w == -4);
  CHECK(seen.wide.x == 0.125);
  CHECK(seen.wide.y == -8);
}

TEST_CASE("cudaMalloc aligns to at least 256 bytes", "[math]") {
  for (const std::size_t bytes : {1U, 3U, 100U, 4097U}) {
    const cuda::DeviceBuffer<unsigned char> buffer(bytes);
    CHECK(reinterpret_cast<std::size_t>(buffer.data()) % 256 == 0);
  }
}

}  // namespace
}  // namespace ddp::conformance
