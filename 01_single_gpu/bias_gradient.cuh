#pragma once

#include <cstddef>

#include "common/cuda/launch.hpp"

namespace ddp {

/// A block sums 32 columns: a warp reads 32 neighbours of one row at once. Its threads (x, y) add
/// rows y, y + 8, y + 16, ... of column x; then thread (x, 0) adds the eight sums of its column.
/// There are no atomics: the order of addition is fixed, so that the same input gives the same
/// bits.
inline constexpr unsigned tile_columns = 32;
inline constexpr unsigned row_groups = 8;

template <class T>
__global__ void bias_gradient_kernel(const T* gradient,         // (rows, columns)
                                     T beta, T* bias_gradient,  // (columns)
                                     int rows, int columns) {
  // [exercise 1.4] Sum this thread's rows into shared memory, wait for the block, add the groups.
  __shared__ T partial[row_groups][tile_columns];
  const int column = static_cast<int>(blockIdx.x * tile_columns + threadIdx.x);
  T sum = 0;
  if (column < columns) {
    for (int row = static_cast<int>(threadIdx.y); row < rows; row += static_cast<int>(row_groups)) {
      sum += gradient[static_cast<std::size_t>(row) * columns + column];
    }
  }
  partial[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();  // every thread of the block comes here, also those without a column
  if (threadIdx.y != 0 || column >= columns) return;
  T total = 0;
  for (unsigned group = 0; group < row_groups; ++group) total += partial[group][threadIdx.x];
  bias_gradient[column] = beta == T(0) ? total : beta * bias_gradient[column] + total;
  // [/exercise]
}

/// bias_gradient[c] = beta * bias_gradient[c] + sum over r of gradient[r][c]; with beta = 0 the old
/// values are not read.
template <class T>
void bias_gradient(const T* gradient, T beta, T* bias_gradient, int rows, int columns,
                   cudaStream_t stream) {
  const unsigned blocks = cuda::blocks_for(static_cast<std::size_t>(columns), tile_columns);
  cuda::launch<bias_gradient_kernel<T>>({stream, blocks, dim3(tile_columns, row_groups)}, gradient,
                                        beta, bias_gradient, rows, columns);
}

}  // namespace ddp
