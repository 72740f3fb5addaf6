#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <source_location>

#include "common/cuda/check.hpp"

namespace ddp::cuda {

/// Where and how wide a kernel runs: `launch<kernel<float>>({stream, blocks, 256}, out, in, n)`.
/// It also notes the line that launches, so that an error names it.
struct LaunchConfig {
  cudaStream_t stream;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  std::source_location where = std::source_location::current();
};

/// Enqueues `Kernel(args...)`; arguments are converted to the kernel's parameter types and copied
/// at the call. `kernel<<<grid, block>>>(args...)` would do the same, but only nvcc can parse it.
/// The kernel is a template argument, so that a compiler for the CPU can inline it. A launch over
/// nothing does nothing: CUDA calls an empty grid an error, and an empty shard is none.
template <auto Kernel, class... Args>
void launch(const LaunchConfig& config, const Args&... args) {
  if (config.grid.x == 0 || config.grid.y == 0 || config.grid.z == 0) return;
  cudaLaunchConfig_t launch_config{};
  launch_config.gridDim = config.grid;
  launch_config.blockDim = config.block;
  launch_config.dynamicSmemBytes = config.shared_bytes;
  launch_config.stream = config.stream;
  check(cudaLaunchKernelEx(&launch_config, Kernel, args...), config.where);
}

/// Number of blocks of `block_size` threads that cover `count` elements; 0 for none.
constexpr unsigned blocks_for(std::size_t count, unsigned block_size) {
  return static_cast<unsigned>((count + block_size - 1) / block_size);
}

}  // namespace ddp::cuda
