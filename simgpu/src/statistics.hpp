#pragma once

#include <atomic>
#include <cstdint>

namespace simgpu {

/// What simgpu/statistics.h shows.
struct Counters {
  std::atomic<std::uint64_t> host_waits{0}, allocations{0}, frees{0}, null_stream_calls{0},
      first_uses{0}, launches{0}, collectives{0};
};
Counters& counters();

/// Counts a launch of `kernel` on `device`, and whether it is the first one.
void count_launch(const void* kernel, int device);

}  // namespace simgpu
