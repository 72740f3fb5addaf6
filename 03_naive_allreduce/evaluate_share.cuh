#pragma once

#include "01_single_gpu/evaluate.cuh"
#include "03_naive_allreduce/shard.hpp"
#include "common/run/ranks.hpp"

namespace ddp {

/// Losses and hits over this rank's share of `data`. No sample is padded in to make the shares
/// equal, so that the sums over all ranks count each sample once; Run::finish adds them.
template <class AnyModel, class T>
EvaluationSums evaluate_share(AnyModel& model, const Loss<T>& loss, const Dataset& data,
                              const Ranks& ranks, cudaStream_t stream) {
  const std::vector<std::uint32_t> all = all_samples(data);
  return evaluate(model, loss, data, shard_of(all, ranks.rank(), ranks.size()), stream);
}

}  // namespace ddp
