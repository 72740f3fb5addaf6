#pragma once

#include <atomic>
#include <mutex>

namespace simgpu {

/// A mutex that ThreadSanitizer cannot see, since this library is not instrumented: it protects our
/// own data and orders nothing of the program's. (Drepper, "Futexes are tricky", mutex 2.)
class QuietMutex {
 public:
  void lock() {
    int seen = free;
    if (state_.compare_exchange_strong(seen, taken)) return;
    while (state_.exchange(contended) != free) state_.wait(contended);
  }
  void unlock() {
    if (state_.exchange(free) == contended) state_.notify_one();
  }

 private:
  enum : int { free, taken, contended };
  std::atomic<int> state_{free};
};

using QuietLock = std::lock_guard<QuietMutex>;

}  // namespace simgpu
