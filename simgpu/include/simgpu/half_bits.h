#pragma once
// Conversions to and from 16-bit floats, on the bits and without branches, so that the compiler
// vectorises a loop of them. All round to nearest, ties to even; a NaN becomes CUDA's canonical
// one. cuda_fp16.h and cuda_bf16.h are for programs; this is what they and the simulator share.

#include <bit>
#include <cstdint>

namespace simgpu {

constexpr std::uint32_t sign_bit = 0x80000000u, float_infinity = 0x7f800000u;

/// IEEE half precision: 5 bits of exponent, 10 of mantissa.
inline float float_from_half_bits(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000u) << 16;
  const std::uint32_t magnitude = static_cast<std::uint32_t>(half & 0x7fffu) << 13;
  const std::uint32_t normal = magnitude + (112u << 23);  // the biases differ by 127 - 15
  // Subnormal: behind a leading 1, which the subtraction takes away, exactly. (A product with 2^112
  // would meet a subnormal float, for which many CPUs take a hundred cycles.)
  const float shifted = std::bit_cast<float>(magnitude + (113u << 23)) - 0x1p-14f;
  const std::uint32_t finite =
      magnitude < (1u << 23) ? std::bit_cast<std::uint32_t>(shifted) : normal;
  const std::uint32_t number = (magnitude < (31u << 23) ? finite : float_infinity) | sign;
  return std::bit_cast<float>(magnitude > (31u << 23) ? 0x7fffffffu : number);
}

inline std::uint16_t half_bits_from_float(float value) {
  const std::uint32_t all = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t sign = all & sign_bit, bits = all ^ sign;
  // Normal: rebias the exponent and round away 13 bits of the mantissa.
  const std::uint32_t normal = (bits - (112u << 23) + 0xfffu + ((bits >> 13) & 1u)) >> 13;
  // Subnormal: adding 0.5 leaves just the bits that are kept, rounded by the addition.
  const float shifted = std::bit_cast<float>(bits) + 0.5f;
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - 0x3f000000u;
  const std::uint32_t finite = bits < (113u << 23) ? subnormal : normal;
  const std::uint32_t number = (bits < (143u << 23) ? finite : 0x7c00u) | (sign >> 16);
  return static_cast<std::uint16_t>(bits > float_infinity ? 0x7fffu : number);
}

// The same for a single number, three times as fast where the compiler knows that the CPU has
// instructions for it; a loop of them is not vectorised. They keep the payload of a NaN, CUDA does
// not. (The names are those behind <immintrin.h>, which takes a second to compile. With _Float16
// g++ 12 makes comparisons of the results into calls of its library.)
#if defined(__F16C__)
inline float one_float_from_half_bits(std::uint16_t half) {
  using Halves [[gnu::vector_size(16)]] = short;
  const float number = __builtin_ia32_vcvtph2ps(Halves{static_cast<short>(half)})[0];
  return (half & 0x7fffu) > 0x7c00u ? std::bit_cast<float>(0x7fffffffu) : number;
}
inline std::uint16_t half_bits_from_one_float(float value) {
  using Floats [[gnu::vector_size(16)]] = float;
  constexpr int nearest_even = 0;
  const short number = __builtin_ia32_vcvtps2ph(Floats{value}, nearest_even)[0];
  return static_cast<std::uint16_t>(value == value ? number : 0x7fff);
}
#else
inline float one_float_from_half_bits(std::uint16_t half) { return float_from_half_bits(half); }
inline std::uint16_t half_bits_from_one_float(float value) { return half_bits_from_float(value); }
#endif

/// The upper half of a float: 8 bits of exponent, 7 of mantissa.
inline float float_from_bfloat16_bits(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

inline std::uint16_t bfloat16_bits_from_float(float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value);
  const std::uint32_t rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return static_cast<std::uint16_t>((bits & ~sign_bit) > float_infinity ? 0x7fffu : rounded);
}

/// A float from which a further rounding, to a type at least two bits shorter, gives what a single
/// rounding of the double would: cut off towards zero, with the last bit set if that lost anything
/// ("round to odd").
inline float float_for_second_rounding(double value) {
  const float nearest = static_cast<float>(value);
  const double error = static_cast<double>(nearest) - value;
  if (!(error > 0 || error < 0)) return nearest;  // exact, or infinite or NaN
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(nearest);
  const bool rounded_up = (error > 0) == (value > 0);
  return std::bit_cast<float>((rounded_up ? bits - 1 : bits) | 1u);
}

}  // namespace simgpu
