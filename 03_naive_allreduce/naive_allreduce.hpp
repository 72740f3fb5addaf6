#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "03_naive_allreduce/all_reduce.hpp"
#include "03_naive_allreduce/device_messages.hpp"

namespace ddp {

/// The obvious all-reduce: everybody sends to rank 0, which adds and sends the sum back.
///
///               rank 1   rank 2   rank 3                rank 1   rank 2   rank 3
///      gather       \      |      /         send back       ^      ^      ^
///                    v     v     v                           \     |     /
///                       rank 0                                 rank 0
///
/// For a buffer of n bytes and N ranks:
///
///                     sends            receives        messages sent
///      rank 0         (N-1) n          (N-1) n         N-1
///      any other      n                n               1
///
/// so that the root's link carries 2(N-1) n bytes, more with every rank, while the others wait for
/// it:
///
///      time = 2 alpha + 2(N-1) n / beta
///
/// where a message of n bytes takes alpha + n / beta: those of several ranks are under way at once,
/// but their bytes queue for the root's link. The root adds in the order of the ranks, rank
/// 0 first: the bits do not depend on who was faster, and they are those of one GPU that runs the
/// ranks' shards as micro-batches one after another.
template <class T>
class NaiveAllReduce final : public AllReduce<T> {
 public:
  /// `communicator` outlives this object. `device_pointers`: see DeviceMessages.
  NaiveAllReduce(const mpi::Communicator& communicator, bool device_pointers);

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

 private:
  const mpi::Communicator& communicator_;
  DeviceMessages<T> messages_;
  GrowingBuffer<cuda::DeviceBuffer<T>> received_;
};

/// What one all-reduce of `count` elements of `size` bytes costs `rank`, by the table above.
Traffic naive_traffic(std::size_t count, std::size_t size, int rank, int world_size);

}  // namespace ddp
