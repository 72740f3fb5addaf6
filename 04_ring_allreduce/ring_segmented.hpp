#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/chunk_plan.hpp"
#include "04_ring_allreduce/exchange.hpp"
#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// The ring of RingAllReduce, with several messages under way. In the plain ring a rank that adds
/// does not receive, and a rank that receives does not add. Here every chunk is cut into segments,
/// which follow each other through the same steps: while segment k is added, segment k + 1 comes in
/// and segment k - 1 goes out. And a segment is small enough to be still in the cache when it is
/// added and sent on.
///
/// The chunks and the order of addition are those of the plain ring, and so are the bits. The bytes
/// are too; the messages are as many as there are segments.
///
/// Item i is segment i mod K of step i / K, where K is the number of segments in a chunk and the
/// steps of both phases are counted through, 0 to 2(N-1) - 1. The table in ring_allreduce.hpp then
/// has one rule: in step s rank r sends chunk r - s and receives chunk r - s - 1, around the
/// circle. Item i is sent once item i - K has been received and added: that is the segment's step
/// before.
template <class T>
class RingSegmentedAllReduce final : public AllReduce<T> {
 public:
  /// As RingAllReduce.
  RingSegmentedAllReduce(const mpi::Communicator& communicator, bool device_pointers);

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

 private:
  struct Items;

  const mpi::Communicator& communicator_;
  const bool device_pointers_;
  const int rank_;
  const int ranks_;
  GrowingBuffer<cuda::DeviceBuffer<T>> device_slots_;
  GrowingBuffer<cuda::PinnedBuffer<T>> pinned_slots_;
};

}  // namespace ddp
