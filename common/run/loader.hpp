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

/// Brings batches to the device ahead of time: while step n computes, the host gathers batch n + 1
/// into pinned memory and a stream of its own copies it. There are two slots, each a pinned and a
/// device buffer, used in turn. Three waits keep them from being overwritten too early:
///
///     who waits        for what                                     before
///     compute stream   `copied`: the batch is on the device         the work of this step
///     copy stream      `consumed`: the step that read the slot ran  it overwrites the device
///     buffer host             `copied`: the copy has read pinned memory    it gathers into it
///     again
///
/// Only the last one can hold up the host, and only when it is two batches ahead.
template <class T>
class Loader {
 public:
  /// Batches have at most `max_batch` samples. Labels are loaded for cross-entropy, targets for
  /// MSE.
  Loader(const Dataset& data, LossKind loss, int max_batch, std::optional<Fault> fault);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  /// Waits for copies under way: they read pinned memory that is about to be freed.
  ~Loader();

  /// The batch of `step`; work that `compute` gets from now on finds it complete. Starts on the
  /// batch of `next`, if there is one. All reads of the batch before must be in `compute` already,
  /// and `compute` must be the same stream every time.
  Batch<T> load(const Step& step, const std::optional<Step>& next, cudaStream_t compute);

 private:
  struct Slot {
    std::int64_t step = 0;  // whose batch it holds; 0 for none
    cuda::PinnedBuffer<T> host_inputs, host_targets;
    cuda::PinnedBuffer<std::int32_t> host_labels;
    cuda::DeviceBuffer<T> inputs, targets;
    cuda::DeviceBuffer<std::int32_t> labels;
    cuda::Event copied, consumed;
  };
  Slot& slot_of(const Step& step) { return slots_[static_cast<std::size_t>(step.number % 2)]; }
  void start_copy(Slot& slot, const Step& step);

  const Dataset& data_;
  LossKind loss_;
  std::optional<Fault> fault_;
  std::array<Slot, 2> slots_;
  Slot* in_use_ = nullptr;  // the slot that the compute stream reads
  cuda::Stream stream_;
};

extern template class Loader<float>;
extern template class Loader<double>;

}  // namespace ddp
