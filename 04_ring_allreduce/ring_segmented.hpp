#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <vector>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/chunk_plan.hpp"
#include "04_ring_allreduce/exchange.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
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
  static constexpr std::size_t segment_bytes = std::size_t{512} << 10;
  static constexpr std::size_t receives_under_way = 4;
  static constexpr std::size_t sends_under_way = 12;  // the right neighbour may be that late
  static constexpr std::size_t slots = receives_under_way + 1;  // one is added meanwhile

  void plan(std::span<const T> input, std::span<T> output, cudaStream_t stream);
  Chunk segment_at(std::size_t item, int later) const;
  std::span<const T> outgoing(std::size_t item) const;
  std::span<T> incoming(std::size_t item) const;
  std::span<T> device_slot(std::size_t item) const;
  void start(std::size_t item);
  void take(std::size_t item);
  void finish_sends(std::size_t end);

  const mpi::Communicator& communicator_;
  const bool device_pointers_;
  const int rank_;
  const int ranks_;

  GrowingBuffer<cuda::DeviceBuffer<T>> device_slots_;  // what was received and not yet added
  GrowingBuffer<cuda::PinnedBuffer<T>> pinned_slots_;  // without device pointers: all messages
  std::vector<cuda::Event> added_;                     // of the item in each slot

  // Of the present call.
  std::span<const T> input_;
  std::span<T> output_;
  cudaStream_t stream_ = nullptr;
  std::size_t segments_ = 0;  // K
  std::size_t reduced_ = 0;   // items of the first phase; the second has as many
  std::size_t slot_size_ = 0;
  T* device_ = nullptr;
  T* pinned_ = nullptr;
  std::vector<mpi::Request> receives_;
  std::vector<mpi::Request> sends_;
  std::size_t finished_sends_ = 0;
};

}  // namespace ddp
