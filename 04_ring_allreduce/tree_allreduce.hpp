#pragma once

#include <cuda_runtime.h>

#include <span>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/exchange.hpp"
#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// Recursive doubling: the all-reduce whose order of addition is a balanced binary tree.
///
/// In round k every rank exchanges its whole buffer with the rank at distance 2^k (rank xor 2^k)
/// and adds, the lower rank's value first. For four ranks with the terms a, b, c, d:
///
///      round   distance   rank 0       rank 1       rank 2       rank 3
///        0        1       a+b          a+b          c+d          c+d
///        1        2       (a+b)+(c+d)  (a+b)+(c+d)  (a+b)+(c+d)  (a+b)+(c+d)
///
/// Both partners add the same two values in the same order, so all ranks end with the same bits.
/// And the tree does not depend on which rank holds which leaves: one rank that adds its own
/// leaves in pairs, then pairs of pairs, gets the bits that four ranks with one leaf each get. This
/// is what makes a run on 1, 2 and 4 GPUs equal to the bit; a ring cannot do it.
///
/// Cost: log2(N) (alpha + bytes / beta). Fewer messages than the ring, so faster for a few bytes;
/// log2(N) buffers sent instead of 2(N-1)/N, so slower for many from N = 4 on. Thakur, Rabenseifner
/// and Gropp 2005, "Optimization of collective communication operations in MPICH".
template <class T>
class TreeAllReduce final : public AllReduce<T> {
 public:
  /// As RingAllReduce. Throws OptionError unless the number of ranks is a power of two.
  TreeAllReduce(const mpi::Communicator& communicator, bool device_pointers);

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

 private:
  const int rank_;
  const int ranks_;
  Exchange<T> exchange_;
  GrowingBuffer<cuda::DeviceBuffer<T>> received_;
};

}  // namespace ddp
