#pragma once
// Stands in for NVIDIA's header of this name in the sim preset: bfloat16, each operation rounded to
// it.

#include "cuda_runtime.h"
#include "simgpu/half_bits.h"

/// The upper half of a float, 1 bit of sign, 8 of exponent, 7 of mantissa: its range, with 2 to 3
/// decimal digits. What rounds, rounds to nearest, ties to even.
struct alignas(2) __nv_bfloat16 {
  __nv_bfloat16() = default;
  __nv_bfloat16(float value);
  __nv_bfloat16(double value);
  __nv_bfloat16(int value);
  operator float() const;

 protected:
  unsigned short bits_;
};
using nv_bfloat16 = __nv_bfloat16;

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 value) {
  return std::bit_cast<unsigned short>(value);
}
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) {
  return std::bit_cast<__nv_bfloat16>(bits);
}

inline __nv_bfloat16 __float2bfloat16_rn(float value) {
  return __ushort_as_bfloat16(simgpu::bfloat16_bits_from_float(value));
}
inline __nv_bfloat16 __float2bfloat16(float value) { return __float2bfloat16_rn(value); }

inline float __bfloat162float(__nv_bfloat16 value) {
  return simgpu::float_from_bfloat16_bits(__bfloat16_as_ushort(value));
}

/// Rounded once.
inline __nv_bfloat16 __double2bfloat16(double value) {
  return __float2bfloat16_rn(simgpu::float_for_second_rounding(value));
}

inline bool __hisnan(__nv_bfloat16 value) {
  return (__bfloat16_as_ushort(value) & 0x7fff) > 0x7f80;
}
/// 1 for infinity, -1 for minus infinity, otherwise 0.
inline int __hisinf(__nv_bfloat16 value) {
  const unsigned short bits = __bfloat16_as_ushort(value);
  return bits == 0x7f80 ? 1 : bits == 0xff80 ? -1 : 0;
}

inline __nv_bfloat16::__nv_bfloat16(float value) : __nv_bfloat16(__float2bfloat16_rn(value)) {}
inline __nv_bfloat16::__nv_bfloat16(double value) : __nv_bfloat16(__double2bfloat16(value)) {}
inline __nv_bfloat16::__nv_bfloat16(int value) : __nv_bfloat16(static_cast<double>(value)) {}
inline __nv_bfloat16::operator float() const { return __bfloat162float(*this); }

// A float has more than twice the bits of a bfloat16, so that rounding its result again gives the
// bfloat16 that is nearest to the exact result.
inline __nv_bfloat16 operator+(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __float2bfloat16_rn(__bfloat162float(a) + __bfloat162float(b));
}
inline __nv_bfloat16 operator-(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __float2bfloat16_rn(__bfloat162float(a) - __bfloat162float(b));
}
inline __nv_bfloat16 operator*(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __float2bfloat16_rn(__bfloat162float(a) * __bfloat162float(b));
}
inline __nv_bfloat16 operator/(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __float2bfloat16_rn(__bfloat162float(a) / __bfloat162float(b));
}
inline __nv_bfloat16& operator+=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a + b; }
inline __nv_bfloat16& operator-=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a - b; }
inline __nv_bfloat16& operator*=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a * b; }
inline __nv_bfloat16& operator/=(__nv_bfloat16& a, const __nv_bfloat16& b) { return a = a / b; }
inline __nv_bfloat16 operator+(const __nv_bfloat16& value) { return value; }
inline __nv_bfloat16 operator-(const __nv_bfloat16& value) {
  return __float2bfloat16_rn(-__bfloat162float(value));
}

inline bool operator==(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __bfloat162float(a) == __bfloat162float(b);
}
inline bool operator!=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return !(a == b); }
inline bool operator<(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __bfloat162float(a) < __bfloat162float(b);
}
inline bool operator>(const __nv_bfloat16& a, const __nv_bfloat16& b) { return b < a; }
inline bool operator<=(const __nv_bfloat16& a, const __nv_bfloat16& b) {
  return __bfloat162float(a) <= __bfloat162float(b);
}
inline bool operator>=(const __nv_bfloat16& a, const __nv_bfloat16& b) { return b <= a; }
