#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <source_location>

#include "common/cuda/check.hpp"
#include "common/cuda/trace.hpp"

namespace ddp::cuda {

/// Where and how wide a kernel runs: `launch<kernel<float>>({stream, blocks, 256}, out, in, n)`.
/// It also notes the line that launches, so that an error names it. `bytes_moved` is for traces:
/// how much device memory the kernel reads and writes at least, which is what bounds most of them.
struct LaunchConfig {
  cudaStream_t stream;
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  std::size_t bytes_moved = 0;  // 0: not known
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
  Timed timed(config.stream);
  check(cudaLaunchKernelEx(&launch_config, Kernel, args...), config.where);
  if (timed) {
    timed.end({.kind = "kernel",
               .name = std::source_location::current().function_name(),
               .bytes = config.bytes_moved,
               .grid = config.grid,
               .block = config.block});
  }
}

/// Number of blocks of `block_size` threads that cover `count` elements; 0 for none.
constexpr unsigned blocks_for(std::size_t count, unsigned block_size) {
  return static_cast<unsigned>((count + block_size - 1) / block_size);
}

}  // namespace ddp::cuda
