#pragma once

#include <cstddef>

#include "common/cuda/launch.hpp"
#include "common/cuda/wide.hpp"

namespace ddp {

/// A block sums a strip of 128 columns with 128 threads, in two turns. First warp w adds rows w, w
/// + 4, w + 8, ...; its lane l has columns l, l + 32, l + 64 and l + 96 of the strip, so that the
/// warp reads neighbours in memory. Then thread t adds the four sums of column t, which other
/// threads have made. There are no atomics: the order of addition is fixed, and the same input
/// gives the same bits.
inline constexpr int strip_columns = 128;
inline constexpr int row_groups = 4;

template <class T>
__global__ void bias_gradient_kernel(const T* gradient,                     // (rows, columns)
                                     Wide<T> beta, Wide<T>* bias_gradient,  // (columns)
                                     int rows, int columns) {
  __shared__ Wide<T> partial[row_groups][strip_columns];
  const int strip = static_cast<int>(blockIdx.x) * strip_columns;
  const int t = static_cast<int>(threadIdx.x);
  // [exercise 1.4] Sum this warp's rows into shared memory, wait for the block, add the four sums.
  const int group = t / 32, lane = t % 32;
  Wide<T> sums[4] = {0, 0, 0, 0};
  for (int row = group; row < rows; row += row_groups) {
    const T* values = gradient + static_cast<std::size_t>(row) * columns + strip;
    for (int k = 0; k < 4; ++k) {
      const int c = lane + 32 * k;
      if (strip + c < columns) sums[k] += Wide<T>(values[c]);
    }
  }
  for (int k = 0; k < 4; ++k) partial[group][lane + 32 * k] = sums[k];
  __syncthreads();  // every thread of the block comes here, also those without a column
  if (strip + t >= columns) return;
  const Wide<T> total = (partial[0][t] + partial[1][t]) + (partial[2][t] + partial[3][t]);
  bias_gradient[strip + t] = beta == 0 ? total : beta * bias_gradient[strip + t] + total;
  // [/exercise]
}

/// bias_gradient[c] = beta * bias_gradient[c] + sum over r of gradient[r][c]; with beta = 0 the old
/// values are not read.
template <class T>
void bias_gradient(const T* gradient, Wide<T> beta, Wide<T>* bias_gradient, int rows, int columns,
                   cudaStream_t stream) {
  const unsigned strips = cuda::blocks_for(static_cast<std::size_t>(columns), strip_columns);
  const std::size_t elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  cuda::launch<bias_gradient_kernel<T>>({.stream = stream,
                                         .grid = strips,
                                         .block = strip_columns,
                                         .bytes_moved = elements * sizeof(T)},
                                        gradient, beta, bias_gradient, rows, columns);
}

}  // namespace ddp
