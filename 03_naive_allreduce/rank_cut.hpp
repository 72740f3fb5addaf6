#pragma once

#include <bit>
#include <string>

#include "02_grad_accum/cut.hpp"
#include "03_naive_allreduce/shard.hpp"
#include "common/errors.hpp"

namespace ddp {

/// Samples in the largest micro-batch of any rank.
inline int rank_micro_batch_size(const Options& options, int world_size) {
  if (options.accumulate == Accumulate::pairwise) return micro_batch_size(options);
  return std::min(micro_batch_size(options), (options.global_batch + world_size - 1) / world_size);
}

/// A rank's leaves of the tree of --accumulate pairwise. Throws OptionError unless every rank gets
/// as many as any other, a power of two: otherwise the ranks would cut the tree where no subtree
/// ends.
inline std::size_t leaves_of_a_rank(const Options& options, int world_size) {
  const std::size_t leaves = leaf_count(options);
  const auto ranks = static_cast<std::size_t>(world_size);
  if (options.accumulate == Accumulate::pairwise &&
      (!std::has_single_bit(ranks) || ranks > leaves)) {
    throw OptionError("--accumulate pairwise has " + std::to_string(leaves) +
                      " micro-batches to share out (a batch of " +
                      std::to_string(options.global_batch) + " by " +
                      std::to_string(micro_batch_size(options)) +
                      ", made up to a power of two); that takes 1, 2, 4, ... ranks, at most one a "
                      "micro-batch, not " +
                      std::to_string(world_size));
  }
  return std::max<std::size_t>(leaves / ranks, 1);
}

/// How the ranks share out a batch: first in shards, then each its shard in micro-batches. With
/// pairwise they share out the leaves of the tree, which are the same for any number of ranks.
inline Cut rank_cut(const Options& options) {
  const auto size = static_cast<std::size_t>(micro_batch_size(options));
  if (options.accumulate == Accumulate::running) {
    return [size](SampleIds batch, int rank, int world_size) {
      return micro_batches(shard_of(batch, rank, world_size), size);
    };
  }
  const std::size_t leaves = leaf_count(options);
  return [size, leaves](SampleIds batch, int rank, int world_size) {
    return fixed_micro_batches(batch, size, leaves, static_cast<std::size_t>(rank),
                               static_cast<std::size_t>(world_size));
  };
}

}  // namespace ddp
