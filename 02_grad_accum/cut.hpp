#pragma once

#include "02_grad_accum/micro_batches.hpp"
#include "common/cli/options.hpp"

namespace ddp {

/// Samples in a micro-batch: --micro-batch, or all that there are.
inline int micro_batch_size(const Options& options) {
  return options.micro_batch == 0 ? options.global_batch
                                  : std::min(options.micro_batch, options.global_batch);
}

/// Micro-batches of a full batch, as --accumulate pairwise counts them.
inline std::size_t leaf_count(const Options& options) {
  return leaf_count(static_cast<std::size_t>(options.global_batch),
                    static_cast<std::size_t>(micro_batch_size(options)));
}

/// How one rank cuts a batch. Pairwise keeps to the leaves of its tree, empty or not.
inline Cut micro_batch_cut(const Options& options) {
  const auto size = static_cast<std::size_t>(micro_batch_size(options));
  if (options.accumulate == Accumulate::running) {
    return [size](SampleIds batch, int, int) { return micro_batches(batch, size); };
  }
  const std::size_t leaves = leaf_count(options);
  return [size, leaves](SampleIds batch, int, int) {
    return fixed_micro_batches(batch, size, leaves, 0, 1);
  };
}

}  // namespace ddp
