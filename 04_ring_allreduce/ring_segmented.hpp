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
/// which follow each other through the same steps: while one is added, the next one comes in and
/// the one before goes out. The steps of both phases are counted through, from 0 to 2(N-1) - 1, and
/// the table in ring_allreduce.hpp has one rule then: in step s rank r sends chunk r - s and
/// receives chunk r - s - 1, around the circle.
///
/// A few segments of each chunk, a group, go through all steps before the next group does, close
/// behind it. So what is added, or sent on, was received only a group ago and is still in a cache.
/// What a rank receives, two groups of two segments, N = 3:
///
///     item       0  1   2  3   4  5   6  7     8  9  10 11  12 13  14 15
///     step       0  0   1  1   2  2   3  3     0  0   1  1   2  2   3  3
///     segment    0  1   0  1   0  1   0  1     2  3   2  3   2  3   2  3
///                |- added  -|  |- kept  -|
///
/// An item of step 0 is sent at once, any other once its segment's step before has been received
/// and added. That was as many items ago as the group has segments.
///
/// The chunks and the order of addition are those of the plain ring, and so are the bits. The bytes
/// are too; the messages are as many as there are segments.
template <class T>
class RingSegmentedAllReduce final : public AllReduce<T> {
 public:
  /// As RingAllReduce.
  RingSegmentedAllReduce(const mpi::Communicator& communicator, bool device_pointers);

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

 private:
  static constexpr std::size_t segment_bytes = std::size_t{512} << 10;
  static constexpr std::size_t segments_of_a_group = 8;  // at most
  static constexpr std::size_t receives_under_way = 4;
  static constexpr std::size_t sends_under_way = 12;  // the right neighbour may be that late
  static constexpr std::size_t slots = receives_under_way + 1;  // one is added meanwhile

  /// What comes in and what goes out in one step of one segment.
  struct Item {
    int step;
    std::size_t segment;
    std::size_t distance;  // so many items ago was the segment's step before
    mpi::Request receive;
    mpi::Request send;
  };

  void plan(std::span<const T> input, std::span<T> output, cudaStream_t stream);
  bool is_added(std::size_t item) const { return items_[item].step < ranks_ - 1; }
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
  std::size_t segments_ = 0;  // in a chunk
  std::size_t ahead_ = 0;     // so many items are started before one is waited for
  std::vector<Item> items_;
  std::size_t finished_sends_ = 0;
  std::size_t slot_size_ = 0;
  T* device_ = nullptr;
  T* pinned_ = nullptr;
};

}  // namespace ddp
