#pragma once
// Stands in for NVIDIA's header of this name in the sim preset: half precision, each operation
// rounded to it.

#include "cuda_runtime.h"
#include "simgpu/half_bits.h"

/// 1 bit of sign, 5 of exponent, 10 of mantissa: up to 65504, normal from 2^-14, subnormal from
/// 2^-24. What rounds, rounds to nearest, ties to even; from 65520 on to infinity.
struct alignas(2) __half {
  __half() = default;
  __half(float value);
  __half(double value);
  __half(int value);
  operator float() const;

 protected:
  unsigned short bits_;
};
using half = __half;
using nv_half = __half;

inline unsigned short __half_as_ushort(__half value) {
  return std::bit_cast<unsigned short>(value);
}
inline __half __ushort_as_half(unsigned short bits) { return std::bit_cast<__half>(bits); }

inline __half __float2half_rn(float value) {
  return __ushort_as_half(simgpu::half_bits_from_one_float(value));
}
inline __half __float2half(float value) { return __float2half_rn(value); }

inline float __half2float(__half value) {
  return simgpu::one_float_from_half_bits(__half_as_ushort(value));
}

/// Rounded once.
inline __half __double2half(double value) {
  return __float2half_rn(simgpu::float_for_second_rounding(value));
}

inline bool __hisnan(__half value) { return (__half_as_ushort(value) & 0x7fff) > 0x7c00; }
/// 1 for infinity, -1 for minus infinity, otherwise 0.
inline int __hisinf(__half value) {
  const unsigned short bits = __half_as_ushort(value);
  return bits == 0x7c00 ? 1 : bits == 0xfc00 ? -1 : 0;
}

inline __half::__half(float value) : __half(__float2half_rn(value)) {}
inline __half::__half(double value) : __half(__double2half(value)) {}
inline __half::__half(int value) : __half(static_cast<double>(value)) {}
inline __half::operator float() const { return __half2float(*this); }

// A float has more than twice the bits of a half, so that rounding its result again gives the half
// that is nearest to the exact result.
inline __half operator+(const __half& a, const __half& b) {
  return __float2half_rn(__half2float(a) + __half2float(b));
}
inline __half operator-(const __half& a, const __half& b) {
  return __float2half_rn(__half2float(a) - __half2float(b));
}
inline __half operator*(const __half& a, const __half& b) {
  return __float2half_rn(__half2float(a) * __half2float(b));
}
inline __half operator/(const __half& a, const __half& b) {
  return __float2half_rn(__half2float(a) / __half2float(b));
}
inline __half& operator+=(__half& a, const __half& b) { return a = a + b; }
inline __half& operator-=(__half& a, const __half& b) { return a = a - b; }
inline __half& operator*=(__half& a, const __half& b) { return a = a * b; }
inline __half& operator/=(__half& a, const __half& b) { return a = a / b; }
inline __half operator+(const __half& value) { return value; }
inline __half operator-(const __half& value) { return __float2half_rn(-__half2float(value)); }

inline bool operator==(const __half& a, const __half& b) {
  return __half2float(a) == __half2float(b);
}
inline bool operator!=(const __half& a, const __half& b) { return !(a == b); }
inline bool operator<(const __half& a, const __half& b) {
  return __half2float(a) < __half2float(b);
}
inline bool operator>(const __half& a, const __half& b) { return b < a; }
inline bool operator<=(const __half& a, const __half& b) {
  return __half2float(a) <= __half2float(b);
}
inline bool operator>=(const __half& a, const __half& b) { return b <= a; }
