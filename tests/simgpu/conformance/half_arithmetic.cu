// Halves as numbers: constructors, operators, tests for infinity and NaN, on the host and on the
// device.
#include <type_traits>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/half_types.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

static_assert(sizeof(__half) == 2 && alignof(__half) == 2 && std::is_same_v<half, __half>);
static_assert(std::is_trivially_copyable_v<__half>);
static_assert(std::is_trivially_default_constructible_v<__half>);
static_assert(sizeof(__nv_bfloat16) == 2 && std::is_same_v<nv_bfloat16, __nv_bfloat16>);
static_assert(std::is_trivially_copyable_v<__nv_bfloat16>);
static_assert(std::is_trivially_default_constructible_v<__nv_bfloat16>);

template <class Half>
unsigned short bits_of(Half value) {
  return HalfFormat<Half>::bits(value);
}

TEST_CASE("a half is made from a float, a double or an int, rounded once", "[half]") {
  CHECK(bits_of(half(0.1F)) == 0x2e66);
  CHECK(bits_of(half(1 + 0x1p-11 + 0x1p-40)) == 0x3c01);
  CHECK(bits_of(half(-3)) == 0xc200);
  CHECK(bits_of(half(2049)) == 0x6800);  // 2048
  CHECK(bits_of(half(70000)) == 0x7c00);
  CHECK(bits_of(nv_bfloat16(0.1F)) == 0x3dcd);
  CHECK(bits_of(nv_bfloat16(1 + 0x1p-8 + 0x1p-40)) == 0x3f81);
  CHECK(bits_of(nv_bfloat16(-3)) == 0xc040);
  CHECK(bits_of(nv_bfloat16((1 << 25) + (1 << 17) + 1)) == 0x4c01);  // 4c00 through a float
  half h = 1.5F;
  h = 2;
  const float f = h;
  CHECK(f == 2.0F);
}

TEMPLATE_TEST_CASE("infinity and NaN of a half", "[half]", __half, __nv_bfloat16) {
  const float infinity = std::numeric_limits<float>::infinity();
  const float nan = std::numeric_limits<float>::quiet_NaN();
  CHECK(__hisinf(TestType(infinity)) == 1);
  CHECK(__hisinf(TestType(-infinity)) == -1);
  CHECK(__hisinf(TestType(nan)) == 0);
  CHECK(__hisinf(TestType(3.0F)) == 0);
  CHECK(__hisnan(TestType(nan)));
  CHECK_FALSE(__hisnan(TestType(infinity)));
  CHECK_FALSE(__hisnan(TestType(-3.0F)));
  const TestType number(1.0F), no_number(nan);
  CHECK_FALSE(no_number == no_number);
  CHECK(no_number != no_number);
  CHECK_FALSE(no_number < number);
  CHECK_FALSE(no_number >= number);
  CHECK(bits_of(number - number) == 0);
  CHECK(bits_of(-(number - number)) == 0x8000);
  CHECK(bits_of(no_number + number) == 0x7fff);
  CHECK(TestType(-0.0F) == TestType(0.0F));
}

TEST_CASE("arithmetic in fp16 by hand", "[half]") {
  CHECK(bits_of(half(0.1F) + half(0.2F)) == 0x34cc);  // 1228.5 * 2^-12, ties to even
  CHECK(bits_of(half(2048) + half(1)) == 0x6800);     // stands still
  CHECK(bits_of(half(1) / half(3)) == 0x3555);
  CHECK(bits_of(half(60000) + half(60000)) == 0x7c00);
  CHECK(bits_of(half(3 * 0x1p-24F) * half(0.5F)) == 2);  // 1.5 of the least, ties to even
  half sum = 1;
  sum += half(2);
  sum -= half(5);
  sum *= half(3);
  sum /= half(4);
  CHECK(sum == half(-1.5F));
}

struct Results {
  unsigned short sum, difference, product, quotient, negative;
  bool less, less_equal, greater, greater_equal, equal, unequal;
};

template <class Half>
__host__ __device__ Results results_of(Half a, Half b) {
  using Format = HalfFormat<Half>;
  return {Format::bits(a + b),
          Format::bits(a - b),
          Format::bits(a * b),
          Format::bits(a / b),
          Format::bits(-a),
          a<b, a <= b, a>
              b,
          a >= b,
          a == b,
          a != b};
}

template <class Half>
__global__ void compute(const unsigned short* a, const unsigned short* b, Results* results) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  results[i] = results_of(HalfFormat<Half>::from_bits(a[i]), HalfFormat<Half>::from_bits(b[i]));
}

template <class Half>
void check_results(unsigned a_bits, unsigned b_bits, const Results& seen) {
  const double a = value_of<Half>(a_bits), b = value_of<Half>(b_bits);
  CAPTURE(a, b);
  CHECK(value_of<Half>(seen.sum) == nearest<Half>(a + b));
  CHECK(value_of<Half>(seen.difference) == nearest<Half>(a - b));
  CHECK(value_of<Half>(seen.product) == nearest<Half>(a * b));
  CHECK(value_of<Half>(seen.quotient) == nearest<Half>(a / b));
  CHECK(seen.negative == (a_bits ^ 0x8000u));
  CHECK(seen.less == (a < b));
  CHECK(seen.less_equal == (a <= b));
  CHECK(seen.greater == (a > b));
  CHECK(seen.greater_equal == (a >= b));
  CHECK(seen.equal == (a == b));
  CHECK(seen.unequal == (a != b));
}

// Doubles hold the operations' results exactly or with more than twice the bits of a half, so that
// rounding them again is rounding the exact result. bfloat16s are taken from the middle of their
// range, where no result leaves that of floats.
TEMPLATE_TEST_CASE("every operation gives the half nearest to the exact result", "[half]", __half,
                   __nv_bfloat16) {
  constexpr unsigned count = 1024;
  constexpr bool fp16 = std::is_same_v<TestType, __half>;
  std::vector<unsigned short> a(count), b(count);
  unsigned state = 1;
  const auto draw = [&] {
    state = state * 1664525u + 1013904223u;
    const unsigned magnitude = fp16 ? 1 + (state >> 8) % 0x7bffu : 0x3000 + (state >> 8) % 0x2000u;
    return static_cast<unsigned short>(magnitude | (state >> 31 << 15));
  };
  for (unsigned i = 0; i < count; ++i) {
    a[i] = draw();
    b[i] = i % 8 == 0 ? a[i] : i % 8 == 1 ? static_cast<unsigned short>(a[i] ^ 1u) : draw();
  }
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned short> a_on_gpu = on_device(a), b_on_gpu = on_device(b);
  const cuda::DeviceBuffer<Results> on_gpu(count);
  cuda::launch<compute<TestType>>({stream, count / 256, 256}, a_on_gpu.data(), b_on_gpu.data(),
                                  on_gpu.data());
  const std::vector<Results> results = read_back(on_gpu);
  for (unsigned i = 0; i < count; ++i) {
    check_results<TestType>(a[i], b[i], results[i]);
    check_results<TestType>(
        a[i], b[i],
        results_of(HalfFormat<TestType>::from_bits(a[i]), HalfFormat<TestType>::from_bits(b[i])));
  }
}

}  // namespace
}  // namespace ddp::conformance
