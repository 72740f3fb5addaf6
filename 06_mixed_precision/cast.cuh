#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>

#include "common/cuda/launch.hpp"
#include "common/cuda/wide.hpp"

/// Between halves and the numbers that they are halves of. T is a half, Wide<T> is float; with T
/// float or double these are copies.
namespace ddp {

inline constexpr unsigned cast_block = 256;
inline constexpr std::size_t cast_tile = 8 * cast_block;  // neighbours that a block takes

/// to[i] = from[i], rounded to the nearest number that To has, to an even one in the middle. What
/// is too large becomes infinite.
template <class From, class To>
__global__ void cast_kernel(const From* from, To* to, std::size_t count) {
  const std::size_t first = blockIdx.x * cast_tile;
  const std::size_t end = first + cast_tile < count ? first + cast_tile : count;
  for (std::size_t i = first + threadIdx.x; i < end; i += cast_block) to[i] = To(from[i]);
}

/// to[i] = scale * from[i], multiplied before it is rounded.
template <class T>
__global__ void scale_and_cast_kernel(const Wide<T>* from, const Wide<T>* scale, T* to,
                                      std::size_t count) {
  const std::size_t first = blockIdx.x * cast_tile;
  const std::size_t end = first + cast_tile < count ? first + cast_tile : count;
  for (std::size_t i = first + threadIdx.x; i < end; i += cast_block) to[i] = T(*scale * from[i]);
}

template <class From, class To>
void cast(std::span<const From> from, std::span<To> to, cudaStream_t stream) {
  if (from.size() != to.size()) throw std::invalid_argument("cast: spans of different sizes");
  cuda::launch<cast_kernel<From, To>>({.stream = stream,
                                       .grid = cuda::blocks_for(from.size(), cast_tile),
                                       .block = cast_block,
                                       .bytes_moved = from.size_bytes() + to.size_bytes()},
                                      from.data(), to.data(), from.size());
}

/// `scale` is one number in device memory.
template <class T>
void scale_and_cast(std::span<const Wide<T>> from, const Wide<T>* scale, std::span<T> to,
                    cudaStream_t stream) {
  if (from.size() != to.size()) throw std::invalid_argument("cast: spans of different sizes");
  cuda::launch<scale_and_cast_kernel<T>>({.stream = stream,
                                          .grid = cuda::blocks_for(from.size(), cast_tile),
                                          .block = cast_block,
                                          .bytes_moved = from.size_bytes() + to.size_bytes()},
                                         from.data(), scale, to.data(), from.size());
}

}  // namespace ddp
