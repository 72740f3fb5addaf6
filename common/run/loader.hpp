#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/data/dataset.hpp"
#include "common/run/fault.hpp"
#include "common/run/step.hpp"

namespace ddp {

/// Brings micro-batches to the device ahead of time: while one computes, the host gathers the next
/// into pinned memory and a stream of its own copies it. There are two slots, each a pinned and a
/// device buffer, used in turn. Three waits keep them from being overwritten too early:
///
///     who waits        for what                                     before
///     compute stream   `copied`: the batch is on the device         the work on it
///     copy stream      `consumed`: the work that read the slot ran  it overwrites the device
///     buffer host             `copied`: the copy has read pinned memory    it gathers into it
///     again
///
/// Only the last one can hold up the host, and only when it is two batches ahead.
template <class T>
class Loader {
 public:
  /// Micro-batches have at most `max_batch` samples. Labels are loaded for cross-entropy, targets
  /// for MSE.
  Loader(const Dataset& data, LossKind loss, int max_batch, std::optional<Fault> fault);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  /// Waits for copies under way: they read pinned memory that is about to be freed.
  ~Loader();

  /// The samples of `micro`; work that `compute` gets from now on finds them complete. Starts on
  /// those of `next`, if there is one. All reads of the batch before must be in `compute` already,
  /// and `compute` must be the same stream every time.
  Batch<T> load(const MicroBatch& micro, const std::optional<MicroBatch>& next,
                cudaStream_t compute);

 private:
  struct Slot {
    std::int64_t step = 0;  // and index: what it holds; 0 for nothing
    int index = 0;
    cuda::PinnedBuffer<T> host_inputs, host_targets;
    cuda::PinnedBuffer<std::int32_t> host_labels;
    cuda::DeviceBuffer<T> inputs, targets;
    cuda::DeviceBuffer<std::int32_t> labels;
    cuda::Event copied, consumed;
  };
  void start_copy(Slot& slot, const MicroBatch& micro);

  const Dataset& data_;
  LossKind loss_;
  std::optional<Fault> fault_;
  std::array<Slot, 2> slots_;
  std::size_t in_use_ = 0;  // the slot that the compute stream reads
  cuda::Stream stream_;
};

extern template class Loader<float>;
extern template class Loader<double>;

}  // namespace ddp
