#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace ddp {

/// Ids of samples, in the order in which they are used. A view of the sampler's order.
using SampleIds = std::span<const std::uint32_t>;

/// What this rank takes through the model at once: a part of the step's batch, perhaps all of it.
struct MicroBatch {
  std::int64_t step;  ///< counted from 1
  int index;          ///< counted from 0 within the step
  SampleIds samples;  ///< may be empty, where there are fewer samples than ranks
};

/// One optimizer step: which samples, in which order.
struct Step {
  std::int64_t number;  ///< counted from 1 over the whole run
  int epoch;            ///< counted from 1
  SampleIds samples;    ///< of the global batch; the last batch of an epoch is short
  std::vector<MicroBatch> micro_batches;  ///< this rank's, at least one

  /// Samples in the global batch: what the gradient of the loss is divided by.
  int count() const { return static_cast<int>(samples.size()); }
};

/// Cuts the samples of a global batch into the micro-batches of a rank, at least one. A pure
/// function: every rank can say what any other does.
using Cut = std::function<std::vector<SampleIds>(SampleIds global_batch, int rank, int world_size)>;

/// Stage 01: one rank takes the batch whole.
inline std::vector<SampleIds> whole_batch(SampleIds global_batch, int, int) {
  return {global_batch};
}

/// The samples of a micro-batch in device memory, valid until the next load().
template <class T>
struct Batch {
  const T* inputs;             ///< (count, input_size), standardised
  const std::int32_t* labels;  ///< (count), for cross-entropy; null for MSE
  const T* targets;            ///< (count, output_size), for MSE; null for cross-entropy
  int count;
};

}  // namespace ddp
