#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "common/run/step.hpp"

namespace ddp {

/// Cuts samples into micro-batches of `size`, the last one possibly shorter: 10 by 4 is 4, 4, 2.
/// One empty micro-batch if there are no samples: it too has a gradient, zero.
inline std::vector<SampleIds> micro_batches(SampleIds samples, std::size_t size) {
  std::vector<SampleIds> parts;
  // [exercise 2.1] Append the parts in order. Every sample belongs to exactly one.
  for (std::size_t first = 0; first < samples.size(); first += size) {
    parts.push_back(samples.subspan(first, std::min(size, samples.size() - first)));
  }
  // [/exercise]
  if (parts.empty()) parts.push_back(samples);
  return parts;
}

/// Number of leaves of the tree in which --accumulate pairwise adds: the micro-batches of a full
/// batch, made up to a power of two. It depends on the global batch alone, never on the ranks.
inline std::size_t leaf_count(std::size_t global_batch, std::size_t size) {
  return std::bit_ceil((global_batch + size - 1) / size);
}

/// The leaves of one rank, which owns a fixed range of the positions in a full batch: leaf i has
/// samples i * size to (i + 1) * size of `samples`. In the short last batch of an epoch the last
/// leaves are short or empty, on whatever rank they are. `world_size` divides `leaves`.
inline std::vector<SampleIds> fixed_micro_batches(SampleIds samples, std::size_t size,
                                                  std::size_t leaves, std::size_t rank,
                                                  std::size_t world_size) {
  std::vector<SampleIds> parts;
  const std::size_t share = leaves / world_size;
  for (std::size_t leaf = rank * share; leaf < (rank + 1) * share; ++leaf) {
    const std::size_t first = std::min(leaf * size, samples.size());
    parts.push_back(samples.subspan(first, std::min(size, samples.size() - first)));
  }
  return parts;
}

}  // namespace ddp
