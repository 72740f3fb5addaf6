#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>

#include "01_single_gpu/reductions.cuh"
#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/run/step.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// What a loss kernel writes about each row (sample).
template <class T>
struct RowResults {
  T* loss;      // (rows)
  T* correct;   // (rows), 1 where the largest output is the right one, else 0
  T* gradient;  // (rows, columns), of the outputs
};

/// Index of the first largest element.
template <class T>
__device__ int argmax(const T* values, int count) {
  int best = 0;
  for (int i = 1; i < count; ++i) {
    if (values[i] > values[best]) best = i;
  }
  return best;
}

/// Cross-entropy of softmax(logits): loss = log(sum of exp z) - z[label], gradient = (softmax z -
/// one-hot(label)) / batch_size. A label outside 0..columns-1 raises label_out_of_range and gives
/// its row zeros; a loss that is NaN or infinite raises non_finite_loss.
///
/// One thread a row: right for ten classes. From about a hundred on a warp a row would pay, its
/// lanes reading neighbours in memory, its sums made by shuffles.
template <class T>
__global__ void cross_entropy_kernel(const T* logits,             // (rows, columns)
                                     const std::int32_t* labels,  // (rows)
                                     int rows, int columns, T batch_size, RowResults<T> results,
                                     unsigned* flags) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const T* z = logits + static_cast<std::size_t>(row) * columns;
  T* gradient = results.gradient + static_cast<std::size_t>(row) * columns;
  const int label = labels[row];
  if (label < 0 || label >= columns) {
    atomicOr(flags, label_out_of_range);
    results.loss[row] = results.correct[row] = 0;
    for (int c = 0; c < columns; ++c) gradient[c] = 0;
    return;
  }
  const int best = argmax(z, columns);
  results.correct[row] = best == label ? T(1) : T(0);
  T loss = 0;
  // [exercise 1.3] exp(1000) overflows; exp(z - max z) does not, and the softmax is the same.
  T sum = 0;
  for (int c = 0; c < columns; ++c) {
    gradient[c] = std::exp(z[c] - z[best]);
    sum += gradient[c];
  }
  for (int c = 0; c < columns; ++c) {
    gradient[c] = (gradient[c] / sum - (c == label ? T(1) : T(0))) / batch_size;
  }
  loss = std::log(sum) + (z[best] - z[label]);
  // [/exercise]
  results.loss[row] = loss;
  if (!std::isfinite(loss)) atomicOr(flags, non_finite_loss);
}

/// Half the squared distance: loss = sum of (y - t)^2 / 2, gradient = (y - t) / batch_size.
template <class T>
__global__ void squared_error_kernel(const T* outputs,  // (rows, columns)
                                     const T* targets,  // (rows, columns)
                                     int rows, int columns, T batch_size, RowResults<T> results,
                                     unsigned* flags) {
  const int row = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (row >= rows) return;
  const T* y = outputs + static_cast<std::size_t>(row) * columns;
  const T* t = targets + static_cast<std::size_t>(row) * columns;
  T* gradient = results.gradient + static_cast<std::size_t>(row) * columns;
  T loss = 0;
  for (int c = 0; c < columns; ++c) {
    const T difference = y[c] - t[c];
    loss += T(0.5) * difference * difference;
    gradient[c] = difference / batch_size;
  }
  results.loss[row] = loss;
  results.correct[row] = argmax(y, columns) == argmax(t, columns) ? T(1) : T(0);
  if (!std::isfinite(loss)) atomicOr(flags, non_finite_loss);
}

/// The loss of a batch, and the gradient that the backward pass starts from.
template <class T>
class Loss {
 public:
  Loss(LossKind kind, int output_size, int max_batch)
      : kind_(kind),
        output_size_(output_size),
        losses_(static_cast<std::size_t>(max_batch)),
        correct_(losses_.size()),
        gradient_(losses_.size() * static_cast<std::size_t>(output_size)) {}

  /// Adds the batch's losses and hits to `scalars` and returns the gradient of `outputs`, both of
  /// shape (batch.count, output_size). The gradient is divided here, where it is born, by
  /// `batch_size`: the samples in the step's global batch. Everything later only adds.
  const T* forward_backward(const T* outputs, const Batch<T>& batch, int batch_size,
                            StepScalars<T>* scalars, cudaStream_t stream) const {
    const cuda::Range range("loss");
    const RowResults<T> results{losses_.data(), correct_.data(), gradient_.data()};
    const unsigned blocks = cuda::blocks_for(static_cast<std::size_t>(batch.count), 64);
    if (kind_ == LossKind::cross_entropy) {
      cuda::launch<cross_entropy_kernel<T>>({stream, blocks, 64}, outputs, batch.labels,
                                            batch.count, output_size_, batch_size, results,
                                            &scalars->flags);
    } else {
      cuda::launch<squared_error_kernel<T>>({stream, blocks, 64}, outputs, batch.targets,
                                            batch.count, output_size_, batch_size, results,
                                            &scalars->flags);
    }
    add_sum(results.loss, batch.count, &scalars->loss_sum, stream);
    add_sum(results.correct, batch.count, &scalars->correct, stream);
    return results.gradient;
  }

 private:
  LossKind kind_;
  int output_size_;
  cuda::DeviceBuffer<T> losses_, correct_;  // (max_batch)
  cuda::DeviceBuffer<T> gradient_;          // (max_batch, output_size)
};

}  // namespace ddp
