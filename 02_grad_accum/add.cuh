#pragma once

#include <cstddef>
#include <span>

#include "common/cuda/launch.hpp"

namespace ddp {

/// A block of 256 threads takes 16 x 256 neighbours, a thread every 256th of them.
inline constexpr unsigned add_block = 256;
inline constexpr std::size_t add_tile = 16 * add_block;

template <class T>
__global__ void add_kernel(const T* a, const T* b, T* sum, std::size_t count) {
  const std::size_t first = blockIdx.x * add_tile;
  const std::size_t end = first + add_tile < count ? first + add_tile : count;
  for (std::size_t i = first + threadIdx.x; i < end; i += add_block) sum[i] = a[i] + b[i];
}

/// sum[i] = a[i] + b[i], on the device; the sum may be one of the two.
template <class T>
void add(const T* a, const T* b, std::span<T> sum, cudaStream_t stream) {
  cuda::launch<add_kernel<T>>({stream, cuda::blocks_for(sum.size(), add_tile), add_block}, a, b,
                              sum.data(), sum.size());
}

}  // namespace ddp
