#pragma once
// What AddressSanitizer and ThreadSanitizer must be told. This library is not instrumented for TSan
// and locks with mutexes that TSan does not see (quiet_mutex.hpp), so that only what CUDA promises
// orders memory: two streams that pass through one of our locks must not look synchronised.

#include <cstddef>

#if defined(SIMGPU_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void AnnotateBenignRaceSized(const char* file, int line, const volatile void* address,
                             unsigned long bytes, const char* description);
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
}
#endif
#if defined(SIMGPU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simgpu::sanitizer {

#if defined(SIMGPU_TSAN) || defined(SIMGPU_ASAN)
constexpr bool any = true;
#else
constexpr bool any = false;
#endif

#if defined(SIMGPU_TSAN)
constexpr bool tsan = true;
/// Memory written before release(tag) is visible after acquire(tag).
inline void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
inline void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
inline void reads(const void* p, std::size_t n) { __tsan_read_range(const_cast<void*>(p), n); }
inline void writes(void* p, std::size_t n) { __tsan_write_range(p, n); }
/// For calls into libraries that lock on their own.
struct IgnoreSync {
  IgnoreSync() { AnnotateIgnoreSyncBegin(__FILE__, __LINE__); }
  ~IgnoreSync() { AnnotateIgnoreSyncEnd(__FILE__, __LINE__); }
};
#else
constexpr bool tsan = false;
inline void release(const void*) {}
inline void acquire(const void*) {}
inline void reads(const void*, std::size_t) {}
inline void writes(void*, std::size_t) {}
struct IgnoreSync {
  IgnoreSync() {}  // not trivial, or compilers call its variables unused
};
#endif

}  // namespace simgpu::sanitizer
