#pragma once

#include <cmath>
#include <cstddef>

#include "common/cli/options.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/wide.hpp"

/// What follows a layer's matrix product: bias and activation, fused, so that each element is
/// touched once. Matrices are row-major, one row a sample.
namespace ddp {

template <class T>
struct Identity {
  static __device__ T value(T z) { return z; }
};

template <class T>
struct Relu {
  static __device__ T value(T z) { return z < T(0) ? T(0) : z; }  // z > 0 ? z : 0 would hide a NaN
  static __device__ T slope(T z) { return z > T(0) ? T(1) : T(0); }
};

/// z Phi(z), exact by erf (Hendrycks, Gimpel 2016, "Gaussian Error Linear Units").
template <class T>
struct Gelu {
  static constexpr T sqrt_half = T(0.70710678118654752440);
  static constexpr T inverse_sqrt_two_pi = T(0.39894228040143267794);
  static __device__ T phi(T z) { return inverse_sqrt_two_pi * std::exp(T(-0.5) * z * z); }
  static __device__ T capital_phi(T z) { return T(0.5) * (T(1) + std::erf(z * sqrt_half)); }
  static __device__ T value(T z) { return z * capital_phi(z); }
  static __device__ T slope(T z) { return capital_phi(z) + z * phi(z); }
};

/// A block takes four rows of a strip of columns, one thread a column, so that a warp touches
/// neighbours in memory.
inline constexpr int rows_per_block = 4;

/// z = product + bias, kept in place of the product for the way back; activated = f(z).
template <class T, class Function>
__global__ void bias_activation_kernel(T* pre_activation,  // (rows, columns), in: product, out: z
                                       const T* bias,      // (columns)
                                       T* activated,       // (rows, columns)
                                       int rows, int columns) {
  // [exercise 1.1] Find this thread's column and leave if there is none; then go down its rows.
  const int column = static_cast<int>(blockIdx.y * blockDim.x + threadIdx.x);
  if (column >= columns) return;
  const int first = static_cast<int>(blockIdx.x) * rows_per_block;
  for (int row = first; row < first + rows_per_block && row < rows; ++row) {
    const std::size_t i = static_cast<std::size_t>(row) * columns + column;
    const T z = T(Wide<T>(pre_activation[i]) + Wide<T>(bias[column]));
    pre_activation[i] = z;
    activated[i] = T(Function::value(Wide<T>(z)));
  }
  // [/exercise]
}

/// A block of 256 threads takes 8 x 256 neighbours, a thread every 256th of them.
inline constexpr unsigned block_size = 256;
inline constexpr std::size_t elements_per_block = 8 * block_size;

/// gradient[i] *= f'(z[i]): from the gradient of f(z) to that of z.
template <class T, class Function>
__global__ void activation_gradient_kernel(const T* pre_activation, T* gradient,
                                           std::size_t count) {
  const std::size_t first = blockIdx.x * elements_per_block;
  const std::size_t end = first + elements_per_block < count ? first + elements_per_block : count;
  for (std::size_t i = first + threadIdx.x; i < end; i += block_size) {
    gradient[i] = T(Wide<T>(gradient[i]) * Function::slope(Wide<T>(pre_activation[i])));
  }
}

/// activated = f(pre_activation + bias); for Identity the two may be one.
template <class Function, class T>
void activate_by(T* pre_activation, const T* bias, T* activated, int rows, int columns,
                 cudaStream_t stream) {
  const unsigned threads =
      columns >= 256 ? block_size : static_cast<unsigned>(columns + 31) / 32 * 32;
  // Rows are counted by x, the only dimension of a grid that may pass 65,535.
  const dim3 grid(cuda::blocks_for(static_cast<std::size_t>(rows), rows_per_block),
                  cuda::blocks_for(static_cast<std::size_t>(columns), threads));
  const std::size_t elements = static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
  cuda::launch<bias_activation_kernel<T, Function>>(
      {.stream = stream, .grid = grid, .block = threads, .bytes_moved = 3 * elements * sizeof(T)},
      pre_activation, bias, activated, rows, columns);
}

template <class T>
void activate(Activation function, T* pre_activation, const T* bias, T* activated, int rows,
              int columns, cudaStream_t stream) {
  const bool relu = function == Activation::relu;
  const auto by_function = relu ? activate_by<Relu<Wide<T>>, T> : activate_by<Gelu<Wide<T>>, T>;
  by_function(pre_activation, bias, activated, rows, columns, stream);
}

template <class T>
void activation_gradient(Activation function, const T* pre_activation, T* gradient,
                         std::size_t count, cudaStream_t stream) {
  const cuda::LaunchConfig config{.stream = stream,
                                  .grid = cuda::blocks_for(count, elements_per_block),
                                  .block = block_size,
                                  .bytes_moved = 3 * count * sizeof(T)};
  if (function == Activation::relu) {
    cuda::launch<activation_gradient_kernel<T, Relu<Wide<T>>>>(config, pre_activation, gradient,
                                                               count);
  } else {
    cuda::launch<activation_gradient_kernel<T, Gelu<Wide<T>>>>(config, pre_activation, gradient,
                                                               count);
  }
}

}  // namespace ddp
