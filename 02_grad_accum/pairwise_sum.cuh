#pragma once

#include <span>
#include <vector>

#include "02_grad_accum/add.cuh"
#include "common/cuda/buffer.hpp"

namespace ddp {

/// Adds arrays that come one after another in a fixed binary tree: ((a + b) + (c + d)) for four of
/// them. The order of addition then depends on their number alone, so that several ranks can each
/// take a whole subtree and get the same bits. (Its rounding error grows with log2(n) instead of n,
/// too: Higham 1993, "The accuracy of floating point summation".)
///
/// It works like a binary counter. After n arrays, level l holds the sum of 2^l neighbours where
/// bit l of n is 1; the next array is added to the levels that a carry runs through:
///
///     array     added, from the right             kept in level
///     1st  a    -                                 0: a
///     2nd  b    a + b                             1: a + b
///     3rd  c    -                                 0: c            (1: a + b)
///     4th  d    c + d, then (a + b) + (c + d)     the last one: the sum is where d was
template <class T>
class PairwiseSum {
 public:
  /// For `count` arrays, a power of two, of `size` elements: log2(count) buffers.
  PairwiseSum(std::size_t count, std::size_t size) : count_(count) {
    for (std::size_t n = count; n > 1; n /= 2) levels_.emplace_back(size);
  }

  /// Takes the next array. The last one is overwritten by the sum of all, others by partial sums:
  /// they may be used again. After the last it begins anew.
  void push(std::span<T> values, cudaStream_t stream) {
    std::size_t level = 0;
    for (; (taken_ >> level) & 1; ++level) {
      add(levels_[level].data(), values.data(), values, stream);
    }
    taken_ = (taken_ + 1) % count_;
    if (taken_ != 0) {
      cuda::copy_async(levels_[level].data(), values.data(), values.size(), stream);
    }
  }

 private:
  std::size_t count_;
  std::size_t taken_ = 0;
  std::vector<cuda::DeviceBuffer<T>> levels_;
};

}  // namespace ddp
