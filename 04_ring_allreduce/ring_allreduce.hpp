#pragma once

#include <cuda_runtime.h>

#include <span>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/chunk_plan.hpp"
#include "04_ring_allreduce/exchange.hpp"
#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// The ring all-reduce.
///
/// The ranks stand in a circle. Each sends only to its right neighbour and receives only from its
/// left one, all at the same time, so that every link carries data in every step and none carries
/// more than another:
///
///              +---+   +---+   +---+   +---+
///         +--->| 0 |-->| 1 |-->| 2 |-->| 3 |---+
///         |    +---+   +---+   +---+   +---+   |
///         +------------------------------------+
///
/// The buffer is cut into one chunk a rank (chunk_plan.hpp). Twice each chunk travels along the
/// circle, N - 1 steps each time:
///
/// Reduce-scatter. A chunk leaves its own rank with one term; every rank it comes to adds its own
/// term and passes the sum on. After N - 1 steps each rank has one finished chunk.
///
/// All-gather. The finished chunks travel once more, and every rank keeps a copy of each.
///
/// The table says, for four ranks, which chunk a rank sends in which step, and how many ranks'
/// terms it holds:
///
///      phase           step   rank 0    rank 1    rank 2    rank 3    terms
///      reduce-scatter    0    chunk 0   chunk 1   chunk 2   chunk 3     1
///                        1    chunk 3   chunk 0   chunk 1   chunk 2     2
///                        2    chunk 2   chunk 3   chunk 0   chunk 1     3
///                     finished chunk 1  chunk 2   chunk 3   chunk 0     4
///      all-gather        0    chunk 1   chunk 2   chunk 3   chunk 0     4
///                        1    chunk 0   chunk 1   chunk 2   chunk 3     4
///                        2    chunk 3   chunk 0   chunk 1   chunk 2     4
///
/// Read a chunk's way down a diagonal: chunk 0 goes from rank 0 to 1, 2, 3, where it is finished,
/// and from there to 0, 1, 2. What a rank receives is what its left neighbour's column sends.
///
/// Cost. A rank sends 2(N-1) messages of 1/N of the buffer. Where a message of n bytes takes
/// alpha + n / beta,
///
///      time = 2(N-1) alpha  +  2(N-1)/N * bytes / beta
///
/// The second term is nearly 2 * bytes / beta for any number of ranks, while the root of the naive
/// way pays 2(N-1) * bytes / beta: that is the gain. In no all-reduce can the busiest rank send
/// less: Patarasuk and Yuan 2009, "Bandwidth optimal all-reduce algorithms for clusters of
/// workstations". The price is the first term, which grows with N: for a few bytes the naive way is
/// faster.
///
/// Bits. Chunk c is added in the order of the ranks c, c+1, ..., c-1 of the circle, so another
/// chunk is added in another order, and elements that move to another chunk (with another N or
/// count) may change their last bit. But each sum is made once, by one chain of ranks, and copied:
/// all ranks end with the same bits.
template <class T>
class RingAllReduce final : public AllReduce<T> {
 public:
  /// `communicator` outlives this object. `device_pointers`: see Exchange.
  RingAllReduce(const mpi::Communicator& communicator, bool device_pointers);

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

  /// Step `step` (0 to ranks - 2) of the first phase: one row of the table. Collective. For sum()
  /// and for those who want to look between the steps. Chunks that no step has reached are not yet
  /// in `output`, unless it is the input.
  void reduce_scatter_step(int step, std::span<const T> input, std::span<T> output,
                           cudaStream_t stream);
  /// The same for the second phase.
  void all_gather_step(int step, std::span<T> values, cudaStream_t stream);

 private:
  /// Chunks go round like the ranks: -1 is the last one, and so on backwards.
  Chunk chunk(std::size_t count, int index) const;

  const int rank_;
  const int ranks_;
  const int left_;
  const int right_;
  Exchange<T> exchange_;
  GrowingBuffer<cuda::DeviceBuffer<T>> received_;
};

}  // namespace ddp
