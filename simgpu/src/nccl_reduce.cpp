// The arithmetic of reductions: plain loops that the compiler vectorises.

#include "nccl_reduce.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "sanitizer.hpp"

namespace simgpu::nccl {
namespace {

// What is computed with: halves as floats, which is exact for one operation of theirs and the
// rounding after it; integers unsigned, so that they wrap around.
template <class T>
auto widened(T value) {
  if constexpr (std::is_integral_v<T>) {
    return static_cast<std::make_unsigned_t<T>>(value);
  } else {
    return value;
  }
}
float widened(__half value) { return float_from_half_bits(__half_as_ushort(value)); }
float widened(__nv_bfloat16 value) { return __bfloat162float(value); }

template <class T, class Wide>
T narrowed(Wide value) {
  if constexpr (std::is_same_v<T, __half>) {
    return __ushort_as_half(half_bits_from_float(value));  // in vectors, unlike __float2half
  } else {
    return static_cast<T>(value);
  }
}

struct Sum {
  template <class T>
  static T combine(T a, T b) {
    return narrowed<T>(widened(a) + widened(b));
  }
};

template <class T>
auto comparable(T value) {
  if constexpr (std::is_integral_v<T>) {
    return value;
  } else {
    return widened(value);
  }
}

/// The larger value, or the one that is a number.
struct Max {
  template <class T>
  static T combine(T a, T b) {
    const auto x = comparable(a), y = comparable(b);
    return x > y || y != y ? a : b;
  }
};

struct Min {
  template <class T>
  static T combine(T a, T b) {
    const auto x = comparable(a), y = comparable(b);
    return x < y || y != y ? a : b;
  }
};

struct Unchanged {
  template <class T>
  T operator()(T value) const {
    return value;
  }
};

/// For the mean of floats: each value times 1/ranks, both rounded to the type.
template <class T>
struct TimesInverse {
  explicit TimesInverse(std::size_t ranks)
      : factor(narrowed<T>(static_cast<Factor>(1.0 / static_cast<double>(ranks)))) {}
  T operator()(T value) const { return narrowed<T>(widened(value) * widened(factor)); }
  using Factor = decltype(widened(T{}));
  T factor;
};

template <class T>
struct DividedBy {
  explicit DividedBy(std::size_t ranks) : divisor(static_cast<T>(ranks)) {}
  T operator()(T value) const { return static_cast<T>(value / divisor); }
  T divisor;
};

/// Of two ranks, in one pass. (`out` may be `a` or `b`, so that the compiler must be told.)
template <class Op, class T, class Before, class After>
void reduce_pair(const T* a, const T* b, T* out, std::size_t count, Before before, After after) {
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    out[i] = after(Op::template combine<T>(before(a[i]), before(b[i])));
  }
}

/// In blocks whose running result stays in the nearest cache.
template <class Op, class T, class Before, class After>
void reduce_blocks(std::span<const std::byte* const> inputs, std::byte* out, std::byte* second_out,
                   std::size_t count, Before before, After after) {
  if (inputs.size() == 2 && second_out == nullptr) {
    return reduce_pair<Op>(reinterpret_cast<const T*>(inputs[0]),
                           reinterpret_cast<const T*>(inputs[1]), reinterpret_cast<T*>(out), count,
                           before, after);
  }
  constexpr std::size_t block = 4096 / sizeof(T);
  T result[block];
  for (std::size_t begin = 0; begin < count; begin += block) {
    const std::size_t n = std::min(block, count - begin);
    const T* const first = reinterpret_cast<const T*>(inputs.front()) + begin;
    for (std::size_t i = 0; i < n; ++i) result[i] = before(first[i]);
    for (const std::byte* const input : inputs.subspan(1)) {
      const T* const values = reinterpret_cast<const T*>(input) + begin;
      for (std::size_t i = 0; i < n; ++i) {
        result[i] = Op::template combine<T>(result[i], before(values[i]));
      }
    }
    for (std::size_t i = 0; i < n; ++i) result[i] = after(result[i]);
    copy_bytes(out + begin * sizeof(T), result, n * sizeof(T));
    if (second_out != nullptr) copy_bytes(second_out + begin * sizeof(T), result, n * sizeof(T));
  }
}

template <class T>
void reduce_as(std::span<const std::byte* const> inputs, std::byte* out, std::byte* second_out,
               std::size_t count, ncclRedOp_t op) {
  const Unchanged same;
  switch (op) {
    case ncclSum:
      return reduce_blocks<Sum, T>(inputs, out, second_out, count, same, same);
    case ncclMax:
      return reduce_blocks<Max, T>(inputs, out, second_out, count, same, same);
    case ncclMin:
      return reduce_blocks<Min, T>(inputs, out, second_out, count, same, same);
    case ncclAvg:
      if constexpr (std::is_integral_v<T>) {
        const DividedBy<T> after(inputs.size());
        return reduce_blocks<Sum, T>(inputs, out, second_out, count, same, after);
      } else {
        const TimesInverse<T> before(inputs.size());
        return reduce_blocks<Sum, T>(inputs, out, second_out, count, before, same);
      }
    case ncclNumOps:
      return;
  }
}

}  // namespace

void reduce(std::span<const std::byte* const> inputs, std::byte* out, std::byte* second_out,
            std::size_t count, ncclDataType_t type, ncclRedOp_t op) {
  switch (type) {
    case ncclInt8:
      return reduce_as<std::int8_t>(inputs, out, second_out, count, op);
    case ncclUint8:
      return reduce_as<std::uint8_t>(inputs, out, second_out, count, op);
    case ncclInt32:
      return reduce_as<std::int32_t>(inputs, out, second_out, count, op);
    case ncclUint32:
      return reduce_as<std::uint32_t>(inputs, out, second_out, count, op);
    case ncclInt64:
      return reduce_as<std::int64_t>(inputs, out, second_out, count, op);
    case ncclUint64:
      return reduce_as<std::uint64_t>(inputs, out, second_out, count, op);
    case ncclFloat16:
      return reduce_as<__half>(inputs, out, second_out, count, op);
    case ncclFloat32:
      return reduce_as<float>(inputs, out, second_out, count, op);
    case ncclFloat64:
      return reduce_as<double>(inputs, out, second_out, count, op);
    case ncclBfloat16:
      return reduce_as<__nv_bfloat16>(inputs, out, second_out, count, op);
    case ncclNumTypes:
      return;
  }
}

void copy_bytes(void* to, const void* from, std::size_t bytes) {
  if constexpr (sanitizer::tsan) {
    auto* const target = static_cast<unsigned char*>(to);
    const auto* const source = static_cast<const unsigned char*>(from);
    for (std::size_t i = 0; i < bytes; ++i) target[i] = source[i];
  } else {
    std::memcpy(to, from, bytes);
  }
}

}  // namespace simgpu::nccl
