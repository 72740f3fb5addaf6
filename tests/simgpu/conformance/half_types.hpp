#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace ddp::conformance {

/// What defines a 16-bit float, and CUDA's names for its bits.
template <class Half>
struct HalfFormat;

template <>
struct HalfFormat<__half> {
  static constexpr int mantissa_bits = 10, bias = 15;
  static constexpr unsigned infinity = 0x7c00;
  __host__ __device__ static __half from_bits(unsigned bits) {
    return __ushort_as_half(static_cast<unsigned short>(bits));
  }
  __host__ __device__ static unsigned short bits(__half value) { return __half_as_ushort(value); }
  __host__ __device__ static float widen(__half value) { return __half2float(value); }
  __host__ __device__ static __half narrow(float value) { return __float2half(value); }
  __host__ __device__ static __half narrow(double value) { return __double2half(value); }
};

template <>
struct HalfFormat<__nv_bfloat16> {
  static constexpr int mantissa_bits = 7, bias = 127;
  static constexpr unsigned infinity = 0x7f80;
  __host__ __device__ static __nv_bfloat16 from_bits(unsigned bits) {
    return __ushort_as_bfloat16(static_cast<unsigned short>(bits));
  }
  __host__ __device__ static unsigned short bits(__nv_bfloat16 value) {
    return __bfloat16_as_ushort(value);
  }
  __host__ __device__ static float widen(__nv_bfloat16 value) { return __bfloat162float(value); }
  __host__ __device__ static __nv_bfloat16 narrow(float value) { return __float2bfloat16(value); }
  __host__ __device__ static __nv_bfloat16 narrow(double value) { return __double2bfloat16(value); }
};

/// The number that the bits mean, by the definition of the format, and what follows on the largest
/// number if they are those of infinity.
template <class Half>
double value_or_overflow(unsigned bits) {
  using Format = HalfFormat<Half>;
  const int mantissa = static_cast<int>(bits & ((1u << Format::mantissa_bits) - 1));
  const int exponent = static_cast<int>((bits & 0x7fffu) >> Format::mantissa_bits);
  const int leading = exponent == 0 ? 0 : 1 << Format::mantissa_bits;  // none if subnormal
  const double magnitude =
      std::ldexp(leading + mantissa, std::max(exponent, 1) - Format::bias - Format::mantissa_bits);
  return (bits & 0x8000u) != 0 ? -magnitude : magnitude;
}

/// The same, with infinities.
template <class Half>
double value_of(unsigned bits) {
  if ((bits & 0x7fffu) != HalfFormat<Half>::infinity) return value_or_overflow<Half>(bits);
  const double infinity = std::numeric_limits<double>::infinity();
  return (bits & 0x8000u) != 0 ? -infinity : infinity;
}

/// The number of the format that is nearest to `value`; of two, the one with the even mantissa.
template <class Half>
double nearest(double value) {
  using Format = HalfFormat<Half>;
  if (value == 0 || std::isinf(value)) return value;
  const int exponent = std::max(std::ilogb(value), 1 - Format::bias);
  const int spacing = exponent - Format::mantissa_bits;
  const double rounded = std::ldexp(std::nearbyint(std::ldexp(value, -spacing)), spacing);
  const double limit = std::ldexp(1, Format::bias + 1);
  return std::fabs(rounded) < limit ? rounded
                                    : std::copysign(std::numeric_limits<double>::infinity(), value);
}

}  // namespace ddp::conformance
