#pragma once
// What a test can ask the simulator, and no GPU: how often this process did what a training step in
// its steady state should not do.

#include <cstdint>

namespace simgpu {

/// Counts since the start of the process, over all threads and devices.
struct Statistics {
  /// Calls that make the host wait for a device: cudaStreamSynchronize, cudaEventSynchronize,
  /// cudaDeviceSynchronize, cudaMemcpy and cudaMemset where they wait, and cudaMemcpyAsync from or
  /// to pageable memory, which waits or may wait.
  std::uint64_t host_waits = 0;
  std::uint64_t allocations = 0;  ///< of device memory and of pinned memory
  std::uint64_t frees = 0;        ///< of the same, null pointers apart
  /// Calls given the null stream: by name, or as cudaMemcpy and cudaMemset, which have no other.
  std::uint64_t null_stream_calls = 0;
  std::uint64_t first_uses = 0;   ///< of a kernel on a device, or of a communicator
  std::uint64_t launches = 0;     ///< of kernels, calls of cuBLAS not counted
  std::uint64_t collectives = 0;  ///< calls of NCCL that move data, sends and receives too
  bool operator==(const Statistics&) const = default;
};

Statistics statistics();

/// What happened between two looks.
inline Statistics operator-(const Statistics& after, const Statistics& before) {
  return {after.host_waits - before.host_waits,
          after.allocations - before.allocations,
          after.frees - before.frees,
          after.null_stream_calls - before.null_stream_calls,
          after.first_uses - before.first_uses,
          after.launches - before.launches,
          after.collectives - before.collectives};
}

}  // namespace simgpu
