#pragma once

#include <cmath>
#include <cstddef>
#include <span>

#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/run/step_scalars.hpp"

/// Many numbers made one. Sums are added in an order that depends on the count alone, so that they
/// repeat to the bit.
namespace ddp {

inline constexpr unsigned reduction_block = 256;
/// Neighbours that one block takes, each thread every 256th of them: few for a quick look at each,
/// many where a block has to meet at a barrier.
inline constexpr std::size_t small_tile = 16 * reduction_block;
inline constexpr std::size_t large_tile = 128 * reduction_block;

/// Four neighbours, which a thread moves by wide memory accesses, for what does little but move
/// memory. An array of packs begins at a multiple of 32 bytes, as all allocations do.
template <class T>
struct alignas(4 * sizeof(T)) Pack {
  T at[4];
};

/// 0, or NaN if one of the four is not finite: 0 times infinity and 0 times NaN are.
template <class T>
__device__ T zero_if_finite(const Pack<T>& pack) {
  return (T(0) * pack.at[0] + T(0) * pack.at[1]) + (T(0) * pack.at[2] + T(0) * pack.at[3]);
}

/// Sum of `value` over the block, valid in its first thread: through shared memory into one warp,
/// then by shuffles. Once in a kernel, by all threads.
template <class T>
__device__ T block_sum(T value) {
  __shared__ T partial[reduction_block];
  partial[threadIdx.x] = value;
  __syncthreads();
  if (threadIdx.x >= 32) return 0;
  T sum = 0;
  for (unsigned i = threadIdx.x; i < reduction_block; i += 32) sum += partial[i];
  for (unsigned distance = 16; distance > 0; distance /= 2) {
    sum += __shfl_down_sync(0xffffffffU, sum, distance);
  }
  return sum;
}

template <class T>
__global__ void add_sum_kernel(const T* values, std::size_t count, T* result) {
  T sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += reduction_block) sum += values[i];
  sum = block_sum(sum);
  if (threadIdx.x == 0) *result += sum;
}

template <class T>
__global__ void check_finite_kernel(const T* values, std::size_t count, unsigned* flags) {
  const auto* const packs = reinterpret_cast<const Pack<T>*>(values);
  const std::size_t first = blockIdx.x * (small_tile / 4) + threadIdx.x;
  T zero = 0;
  for (std::size_t p = first; p < first + small_tile / 4 && p < count / 4; p += reduction_block) {
    zero += zero_if_finite(packs[p]);
  }
  // The last few fill no pack.
  if (blockIdx.x == 0 && threadIdx.x < count % 4) zero += T(0) * values[count - 1 - threadIdx.x];
  if (zero != T(0)) atomicOr(flags, non_finite_gradient);
}

template <class T>
__global__ void sum_of_squares_kernel(const T* values, std::size_t count, T* partial_sums) {
  const std::size_t first = blockIdx.x * large_tile;
  const std::size_t end = first + large_tile < count ? first + large_tile : count;
  T sum = 0;
  for (std::size_t i = first + threadIdx.x; i < end; i += reduction_block) {
    sum += values[i] * values[i];
  }
  sum = block_sum(sum);
  if (threadIdx.x == 0) partial_sums[blockIdx.x] = sum;
}

template <class T>
__global__ void norm_kernel(const T* partial_sums, std::size_t count, StepScalars<T>* scalars) {
  T sum = 0;
  for (std::size_t i = threadIdx.x; i < count; i += reduction_block) sum += partial_sums[i];
  sum = block_sum(sum);
  if (threadIdx.x != 0) return;
  scalars->gradient_norm = std::sqrt(sum);
  if (!std::isfinite(sum) && scalars->skip == 0) atomicOr(&scalars->flags, non_finite_gradient);
}

template <class T>
__global__ void clip_kernel(T* values, std::size_t count, T max_norm, const T* norm) {
  if (!(*norm > max_norm)) return;
  const T scale = max_norm / *norm;
  const std::size_t first = blockIdx.x * small_tile;
  const std::size_t end = first + small_tile < count ? first + small_tile : count;
  for (std::size_t i = first + threadIdx.x; i < end; i += reduction_block) values[i] *= scale;
}

/// Before a step: clears the sums in `scalars`, but not the flags, which stay raised.
template <class T>
void clear_sums(StepScalars<T>* scalars, cudaStream_t stream) {
  const cuda::Range range("clear sums");
  cuda::clear_async(reinterpret_cast<std::byte*>(scalars), offsetof(StepScalars<T>, flags), stream);
}

/// *result += values[0] + ... + values[count - 1], by one block: for a batch, not for a model.
template <class T>
void add_sum(const T* values, int count, T* result, cudaStream_t stream) {
  cuda::launch<add_sum_kernel<T>>({stream, 1, reduction_block}, values, count, result);
}

/// Raises non_finite_gradient if any value is NaN or infinite.
template <class T>
void check_finite(std::span<T> values, StepScalars<T>* scalars, cudaStream_t stream) {
  const cuda::Range range("check finite");
  cuda::launch<check_finite_kernel<T>>({.stream = stream,
                                        .grid = cuda::blocks_for(values.size(), small_tile),
                                        .block = reduction_block,
                                        .bytes_moved = values.size_bytes()},
                                       values.data(), values.size(), &scalars->flags);
}

/// Clips a gradient by its global norm (Pascanu, Mikolov, Bengio 2013): all parameters together are
/// scaled to norm `max_norm` where theirs is larger. With max_norm 0 nothing happens.
template <class T>
class GradientClipper {
 public:
  GradientClipper(double max_norm, std::size_t count)
      : max_norm_(static_cast<T>(max_norm)), partial_sums_(cuda::blocks_for(count, large_tile)) {}

  /// Leaves the norm before clipping in scalars->gradient_norm. A norm that overflows raises
  /// non_finite_gradient. `gradient` has the `count` elements of the constructor.
  void clip(std::span<T> gradient, StepScalars<T>* scalars, cudaStream_t stream) const {
    if (max_norm_ == T(0)) return;
    const cuda::Range range("clip");
    const std::size_t tiles = partial_sums_.size();
    cuda::launch<sum_of_squares_kernel<T>>({stream, static_cast<unsigned>(tiles), reduction_block},
                                           gradient.data(), gradient.size(), partial_sums_.data());
    cuda::launch<norm_kernel<T>>({stream, 1, reduction_block}, partial_sums_.data(), tiles,
                                 scalars);
    const unsigned blocks = cuda::blocks_for(gradient.size(), small_tile);
    cuda::launch<clip_kernel<T>>({stream, blocks, reduction_block}, gradient.data(),
                                 gradient.size(), max_norm_, &scalars->gradient_norm);
  }

 private:
  T max_norm_;
  cuda::DeviceBuffer<T> partial_sums_;  // one a block
};

}  // namespace ddp
