// Plain loops that the compiler vectorises.

#include "half_arrays.hpp"

#include "simgpu/half_bits.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

namespace simgpu {
namespace {

template <class Convert, class From, class To>
void convert(Convert one, const From* from, std::size_t count, To* to) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) to[i] = one(from[i]);
}

/// Of every product's factors, and so worth instructions of its own where there are any.
void widen_halves(const std::uint16_t* halves, std::size_t count, float* floats) {
  std::size_t done = 0;
#if defined(__F16C__)
  for (; done + 8 <= count; done += 8) {
    const auto* const eight = reinterpret_cast<const __m128i*>(halves + done);
    _mm256_storeu_ps(floats + done, _mm256_cvtph_ps(_mm_loadu_si128(eight)));
  }
#endif
  convert([](std::uint16_t half) { return float_from_half_bits(half); }, halves + done,
          count - done, floats + done);
}

}  // namespace

void widen(const void* halves, cudaDataType type, std::size_t count, float* floats) {
  const auto* const bits = static_cast<const std::uint16_t*>(halves);
  if (type == CUDA_R_16F) {
    widen_halves(bits, count, floats);
  } else {
    convert([](std::uint16_t half) { return float_from_bfloat16_bits(half); }, bits, count, floats);
  }
}

void narrow(const float* floats, std::size_t count, cudaDataType type, void* halves) {
  auto* const bits = static_cast<std::uint16_t*>(halves);
  if (type == CUDA_R_16F) {
    convert([](float value) { return half_bits_from_float(value); }, floats, count, bits);
  } else {
    convert([](float value) { return bfloat16_bits_from_float(value); }, floats, count, bits);
  }
}

}  // namespace simgpu
