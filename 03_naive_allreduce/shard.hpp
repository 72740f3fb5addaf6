#pragma once

#include <algorithm>
#include <cstddef>

#include "common/run/step.hpp"

namespace ddp {

/// The part of `samples` that belongs to `rank`: consecutive, in the order of the ranks, sizes that
/// differ by at most one, the larger ones first. 10 samples on 4 ranks are 3, 3, 2, 2; 2 samples on
/// 4 ranks are 1, 1, 0, 0. All shards together are the batch, each sample once.
inline SampleIds shard_of(SampleIds samples, int rank, int world_size) {
  const auto ranks = static_cast<std::size_t>(world_size);
  const auto mine = static_cast<std::size_t>(rank);
  // [exercise 3.1] Find where the shard begins and how long it is.
  const std::size_t least = samples.size() / ranks;
  const std::size_t larger = samples.size() % ranks;  // so many shards have one sample more
  const std::size_t first = mine * least + std::min(mine, larger);
  return samples.subspan(first, least + (mine < larger ? 1 : 0));
  // [/exercise]
}

}  // namespace ddp
