// Conversions to and from half precision, on the host and on the device: every value, and the
// floats and doubles around every place where the rounding changes.
#include <algorithm>
#include <bit>
#include <cstdint>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/half_types.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr unsigned all_values = 65536;

template <class Half>
__global__ void widen_all(float* floats) {
  const unsigned bits = blockIdx.x * blockDim.x + threadIdx.x;
  floats[bits] = HalfFormat<Half>::widen(HalfFormat<Half>::from_bits(bits));
}

template <class Half, class T>
__global__ void narrow(const T* values, unsigned short* bits, unsigned count) {
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) bits[i] = HalfFormat<Half>::bits(HalfFormat<Half>::narrow(values[i]));
}

template <class Half>
void check_widened(const std::vector<float>& floats) {
  unsigned wrong = 0;
  for (unsigned bits = 0; bits < all_values; ++bits) {
    const double expected = value_of<Half>(bits);
    const bool is_number = (bits & 0x7fffu) <= HalfFormat<Half>::infinity;
    const double seen = static_cast<double>(floats[bits]);
    const bool same = seen == expected && std::signbit(seen) == std::signbit(expected);
    if (is_number ? same : std::isnan(seen)) continue;
    INFO("bits " << bits << " became " << floats[bits]);
    if (++wrong <= 3) CHECK(seen == expected);
  }
  CHECK(wrong == 0);
}

TEMPLATE_TEST_CASE("all 65,536 values of a half become the same number as floats", "[half]", __half,
                   __nv_bfloat16) {
  std::vector<float> floats(all_values);
  for (unsigned bits = 0; bits < all_values; ++bits) {
    floats[bits] = HalfFormat<TestType>::widen(HalfFormat<TestType>::from_bits(bits));
  }
  check_widened<TestType>(floats);

  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> on_gpu(all_values);
  cuda::launch<widen_all<TestType>>({stream, all_values / 256, 256}, on_gpu.data());
  check_widened<TestType>(read_back(on_gpu));
}

/// Numbers and the bits that they must be rounded to.
template <class T>
struct Roundings {
  std::vector<T> values;
  std::vector<unsigned short> expected;

  void add_both_signs(T value, unsigned bits) {
    values.insert(values.end(), {value, -value});
    expected.push_back(static_cast<unsigned short>(bits));
    expected.push_back(static_cast<unsigned short>(bits | 0x8000u));
  }
};

/// Each number of the format; the midpoint to its upper neighbour, which goes to the even one of
/// the two; and what lies next to these three, as closely as T can tell.
template <class Half, class T>
Roundings<T> roundings_everywhere() {
  const T above_all = std::numeric_limits<T>::infinity();
  Roundings<T> cases;
  for (unsigned bits = 0; bits < HalfFormat<Half>::infinity; ++bits) {
    const double low = value_or_overflow<Half>(bits), high = value_or_overflow<Half>(bits + 1);
    const T value = static_cast<T>(low), midpoint = static_cast<T>(low + (high - low) / 2);
    cases.add_both_signs(value, bits);
    cases.add_both_signs(std::nextafter(value, above_all), bits);
    cases.add_both_signs(std::nextafter(midpoint, T(0)), bits);
    cases.add_both_signs(midpoint, bits % 2 == 0 ? bits : bits + 1);
    cases.add_both_signs(std::nextafter(midpoint, above_all), bits + 1);
    if (bits > 0) cases.add_both_signs(std::nextafter(value, T(0)), bits);
  }
  for (const T huge : {std::numeric_limits<T>::max(), above_all}) {
    cases.add_both_signs(huge, HalfFormat<Half>::infinity);
  }
  cases.add_both_signs(std::numeric_limits<T>::denorm_min(), 0);
  // All NaNs become the canonical one.
  const T quiet = std::numeric_limits<T>::quiet_NaN();
  cases.values.insert(cases.values.end(), {quiet, -quiet});
  cases.expected.insert(cases.expected.end(), {0x7fff, 0x7fff});
  return cases;
}

template <class T>
void check_bits(const Roundings<T>& cases, const std::vector<unsigned short>& seen) {
  unsigned wrong = 0;
  for (std::size_t i = 0; i < seen.size(); ++i) {
    if (seen[i] == cases.expected[i]) continue;
    INFO("the value " << std::hexfloat << cases.values[i]);
    if (++wrong <= 3) CHECK(seen[i] == cases.expected[i]);
  }
  CHECK(wrong == 0);
}

template <class Half, class T>
void check_roundings(const Roundings<T>& cases) {
  std::vector<unsigned short> on_host;
  for (const T value : cases.values) {
    on_host.push_back(HalfFormat<Half>::bits(HalfFormat<Half>::narrow(value)));
  }
  check_bits(cases, on_host);

  const cuda::Stream stream;
  const unsigned count = static_cast<unsigned>(cases.values.size());
  const cuda::DeviceBuffer<T> values = on_device(cases.values);
  const cuda::DeviceBuffer<unsigned short> bits(count);
  cuda::launch<narrow<Half, T>>({stream, cuda::blocks_for(count, 256), 256}, values.data(),
                                bits.data(), count);
  check_bits(cases, read_back(bits));
}

TEMPLATE_TEST_CASE("floats are rounded to the nearest half, ties to the even one", "[half]", __half,
                   __nv_bfloat16) {
  check_roundings<TestType>(roundings_everywhere<TestType, float>());
}

TEMPLATE_TEST_CASE("doubles are rounded to halves once, not by way of a float", "[half]", __half,
                   __nv_bfloat16) {
  check_roundings<TestType>(roundings_everywhere<TestType, double>());
}

TEST_CASE("roundings to fp16 by hand", "[half]") {
  const auto bits = [](float value) { return __half_as_ushort(__float2half_rn(value)); };
  CHECK(bits(1) == 0x3c00);
  CHECK(bits(-2) == 0xc000);
  CHECK(bits(0.1F) == 0x2e66);
  CHECK(bits(1 + 0x1p-11F) == 0x3c00);      // ties to even, down
  CHECK(bits(1 + 3 * 0x1p-11F) == 0x3c02);  // and up
  CHECK(bits(65504) == 0x7bff);
  CHECK(bits(65519.99F) == 0x7bff);
  CHECK(bits(65520) == 0x7c00);
  CHECK(bits(0x1p-24F) == 1);
  CHECK(bits(0x1p-25F) == 0);
  CHECK(bits(-0x1p-25F) == 0x8000);
  CHECK(bits(0x1.000002p-25F) == 1);
  CHECK(bits(-0.0F) == 0x8000);
  CHECK(__half_as_ushort(__double2half(1 + 0x1p-11 + 0x1p-40)) == 0x3c01);  // 3c00 through a float
  CHECK(__half_as_ushort(__double2half(65520 - 0x1p-30)) == 0x7bff);        // infinity
  CHECK(__half_as_ushort(__double2half(0x1p-25 + 0x1p-70)) == 1);           // 0
}

TEST_CASE("roundings to bfloat16 by hand", "[half]") {
  const auto bits = [](float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); };
  CHECK(bits(1) == 0x3f80);
  CHECK(bits(0.1F) == 0x3dcd);
  CHECK(bits(259) == 0x4382);              // 260
  CHECK(bits(1 + 0x1p-8F) == 0x3f80);      // ties to even, down
  CHECK(bits(1 + 3 * 0x1p-8F) == 0x3f82);  // and up
  CHECK(bits(65520) == 0x4780);            // 65536: no overflow here
  CHECK(bits(std::numeric_limits<float>::max()) == 0x7f80);
  CHECK(bits(0x1p-133F) == 1);
  CHECK(bits(0x1p-134F) == 0);
  CHECK(__bfloat16_as_ushort(__double2bfloat16(1 + 0x1p-8 + 0x1p-40)) == 0x3f81);
  CHECK(__bfloat16_as_ushort(__double2bfloat16(1e300)) == 0x7f80);
}

}  // namespace
}  // namespace ddp::conformance
