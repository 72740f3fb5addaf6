#pragma once
// What AddressSanitizer and ThreadSanitizer must be told. This library is not instrumented for TSan
// and hides its own locks from it, so that only what CUDA promises orders memory: two streams that
// happen to pass through one of our mutexes must not look synchronised.

#include <cstddef>
#include <mutex>

#if defined(SIMGPU_TSAN)
#include <sanitizer/tsan_interface.h>
extern "C" {
void AnnotateIgnoreSyncBegin(const char* file, int line);
void AnnotateIgnoreSyncEnd(const char* file, int line);
void __tsan_read_range(void* address, unsigned long size);
void __tsan_write_range(void* address, unsigned long size);
}
#endif
#if defined(SIMGPU_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

namespace simgpu::sanitizer {

#if defined(SIMGPU_TSAN)
constexpr bool tsan = true;
/// Memory written before release(tag) is visible after acquire(tag).
inline void release(const void* tag) { __tsan_release(const_cast<void*>(tag)); }
inline void acquire(const void* tag) { __tsan_acquire(const_cast<void*>(tag)); }
inline void reads(const void* p, std::size_t n) { __tsan_read_range(const_cast<void*>(p), n); }
inline void writes(void* p, std::size_t n) { __tsan_write_range(p, n); }
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

namespace simgpu {

/// Locks a mutex of the library without TSan taking it for an order between its users.
class QuietLock {
 public:
  explicit QuietLock(std::mutex& mutex) : lock_(mutex) {}

 private:
  sanitizer::IgnoreSync ignore_;  // first, so that it is in force while the lock is taken and given
  std::lock_guard<std::mutex> lock_;
};

}  // namespace simgpu
