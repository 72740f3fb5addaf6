#include "common/cuda/device_memory.hpp"

#include <algorithm>
#include <mutex>

namespace ddp::cuda {
namespace {

// Allocations are rare and slow: a lock costs nothing beside them.
struct Count {
  std::mutex mutex;
  std::size_t now = 0, peak = 0;
};
constinit Count count;

}  // namespace

std::size_t device_bytes() {
  const std::lock_guard lock(count.mutex);
  return count.now;
}

std::size_t peak_device_bytes() {
  const std::lock_guard lock(count.mutex);
  return count.peak;
}

void restart_peak_device_bytes() {
  const std::lock_guard lock(count.mutex);
  count.peak = count.now;
}

void count_device_bytes(std::ptrdiff_t change) {
  const std::lock_guard lock(count.mutex);
  count.now += static_cast<std::size_t>(change);
  count.peak = std::max(count.peak, count.now);
}

}  // namespace ddp::cuda
