#pragma once
// What kernels call: barriers, warp functions, atomics and mathematics, under CUDA's names.

#include <math.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "simgpu/launch.h"

#define __global__
#define __device__
#define __host__
// One copy an OS thread is one copy a block, since the blocks of a stream run one after another.
#define __shared__ static thread_local
#define __forceinline__ inline __attribute__((always_inline))
#define __launch_bounds__(...)
#define __align__(bytes) __attribute__((aligned(bytes)))

namespace simgpu {

void* dynamic_shared_memory();
void sync_threads(const char* file, int line);
void sync_warp(unsigned mask, const char* file, int line);
/// Every lane in `mask` gives a value; the result is that of lane `source`, which must be among
/// them.
std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned source, const char* file,
                           int line);
/// Bit i of the result: lane i is in `mask`, present and gave true.
unsigned warp_ballot(unsigned mask, bool predicate, unsigned* present, const char* file, int line);
unsigned lane();
[[noreturn]] void trap();

template <class T>
T shuffle(unsigned mask, T value, unsigned source, const char* file, int line) {
  static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "a shuffle moves a number");
  std::uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_shuffle(mask, bits, source, file, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

}  // namespace simgpu

// The last two parameters tell an error message where the call stands.
#define SIMGPU_HERE const char *file = __builtin_FILE(), int line = __builtin_LINE()

inline void __syncthreads(SIMGPU_HERE) { simgpu::sync_threads(file, line); }
inline void __syncwarp(unsigned mask = 0xffffffffu, SIMGPU_HERE) {
  simgpu::sync_warp(mask, file, line);
}

// Shuffles work within segments of `width` lanes (a power of two). A lane whose source lies outside
// its segment gets its own value, but for __shfl_sync, which wraps around.
template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, SIMGPU_HERE) {
  const unsigned w = static_cast<unsigned>(width), segment = simgpu::lane() & ~(w - 1);
  return simgpu::shuffle(mask, value, segment + (static_cast<unsigned>(source) & (w - 1)), file,
                         line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMGPU_HERE) {
  const unsigned w = static_cast<unsigned>(width), lane = simgpu::lane();
  const unsigned source = (lane & (w - 1)) >= delta ? lane - delta : lane;
  return simgpu::shuffle(mask, value, source, file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, SIMGPU_HERE) {
  const unsigned w = static_cast<unsigned>(width), lane = simgpu::lane();
  const unsigned source = (lane & (w - 1)) + delta < w ? lane + delta : lane;
  return simgpu::shuffle(mask, value, source, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int lane_mask, int width = 32, SIMGPU_HERE) {
  const unsigned w = static_cast<unsigned>(width), lane = simgpu::lane();
  const unsigned other = lane ^ static_cast<unsigned>(lane_mask);
  // A lane of a later segment may not be read, one of an earlier segment may.
  const unsigned source = other < (lane & ~(w - 1)) + w ? other : lane;
  return simgpu::shuffle(mask, value, source, file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, SIMGPU_HERE) {
  return simgpu::warp_ballot(mask, predicate != 0, nullptr, file, line);
}
inline int __any_sync(unsigned mask, int predicate, SIMGPU_HERE) {
  return simgpu::warp_ballot(mask, predicate != 0, nullptr, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, SIMGPU_HERE) {
  unsigned present = 0;
  return simgpu::warp_ballot(mask, predicate != 0, &present, file, line) == present;
}

[[noreturn]] inline void __trap() { simgpu::trap(); }

#if defined(__SANITIZE_THREAD__)  // TSan does not know fences
inline void __threadfence() {}
inline void __threadfence_block() {}
#else
inline void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
inline void __threadfence_block() { std::atomic_thread_fence(std::memory_order_seq_cst); }
#endif

// Atomics return the old value. They order nothing else, as on a GPU.
template <class T>
T atomicAdd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_add(value, std::memory_order_relaxed);
}
template <class T>
T atomicSub(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_sub(value, std::memory_order_relaxed);
}
template <class T>
T atomicExch(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).exchange(value, std::memory_order_relaxed);
}
template <class T>
T atomicCAS(T* address, std::type_identity_t<T> compare, std::type_identity_t<T> value) {
  std::atomic_ref<T>(*address).compare_exchange_strong(compare, value, std::memory_order_relaxed);
  return compare;
}
template <class T>
T atomicOr(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_or(value, std::memory_order_relaxed);
}
template <class T>
T atomicAnd(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_and(value, std::memory_order_relaxed);
}
template <class T>
T atomicXor(T* address, std::type_identity_t<T> value) {
  return std::atomic_ref<T>(*address).fetch_xor(value, std::memory_order_relaxed);
}
template <class T>
T atomicMax(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> ref(*address);
  T old = ref.load(std::memory_order_relaxed);
  while (old < value && !ref.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
  return old;
}
template <class T>
T atomicMin(T* address, std::type_identity_t<T> value) {
  std::atomic_ref<T> ref(*address);
  T old = ref.load(std::memory_order_relaxed);
  while (value < old && !ref.compare_exchange_weak(old, value, std::memory_order_relaxed)) {
  }
  return old;
}

template <class T>
T __ldg(const T* address) {
  return *address;
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __clz(int x) { return std::countl_zero(static_cast<unsigned>(x)); }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
inline double rsqrt(double x) { return 1.0 / sqrt(x); }
inline unsigned __float_as_uint(float x) { return std::bit_cast<unsigned>(x); }
inline float __uint_as_float(unsigned x) { return std::bit_cast<float>(x); }
inline int __float_as_int(float x) { return std::bit_cast<int>(x); }
inline float __int_as_float(int x) { return std::bit_cast<float>(x); }
inline long long __double_as_longlong(double x) { return std::bit_cast<long long>(x); }

// The C library declares these names for itself; CUDA's are fast and less exact.
#define __expf(x) expf(x)
#define __logf(x) logf(x)

// CUDA has min and max of numbers without a namespace.
inline int min(int a, int b) { return std::min(a, b); }
inline int max(int a, int b) { return std::max(a, b); }
inline unsigned min(unsigned a, unsigned b) { return std::min(a, b); }
inline unsigned max(unsigned a, unsigned b) { return std::max(a, b); }
inline long long min(long long a, long long b) { return std::min(a, b); }
inline long long max(long long a, long long b) { return std::max(a, b); }
inline float min(float a, float b) { return fminf(a, b); }
inline float max(float a, float b) { return fmaxf(a, b); }
inline double min(double a, double b) { return fmin(a, b); }
inline double max(double a, double b) { return fmax(a, b); }
