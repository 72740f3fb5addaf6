#pragma once

#include <cstddef>

namespace ddp::cuda {

/// What the DeviceBuffers of this process hold, and the most they have held at one time. They count
/// the bytes that were asked for, so the numbers are the same in both builds and exact; what CUDA,
/// cuBLAS or NCCL take for themselves is not in them, and cudaMemGetInfo, which has that too, knows
/// no peak. One device a process, so one count.
std::size_t device_bytes();
std::size_t peak_device_bytes();

/// The peak is from now on that of what follows: for a second run in one process.
void restart_peak_device_bytes();

/// For DeviceBuffer, at each allocation and, with a negative number, at each release.
void count_device_bytes(std::ptrdiff_t change);

}  // namespace ddp::cuda
