#pragma once

#include <cstdint>
#include <span>

namespace ddp {

/// One optimizer step: which samples, in which order.
struct Step {
  std::int64_t number;  ///< counted from 1 over the whole run
  int epoch;            ///< counted from 1
  std::span<const std::uint32_t>
      samples;  ///< ids of the global batch; the last of an epoch is short
};

/// The samples of a step in device memory, valid until the next load().
template <class T>
struct Batch {
  const T* inputs;             ///< (count, input_size), standardised
  const std::int32_t* labels;  ///< (count), for cross-entropy; null for MSE
  const T* targets;            ///< (count, output_size), for MSE; null for cross-entropy
  int count;
};

}  // namespace ddp
