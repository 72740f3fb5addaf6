#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "01_single_gpu/parameter_store.hpp"
#include "03_naive_allreduce/step_sums.cuh"
#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"

namespace ddp {

/// What one all-reduce of `count` elements of `size` bytes costs a rank; null where nobody can say.
using TrafficFormula = Traffic (*)(std::size_t count, std::size_t size, int rank, int world_size);

/// The result with what every rank should have sent and received by `formula`, to stand beside what
/// it did.
template <class T>
TrainingResult with_traffic_by(TrafficFormula formula, TrainingResult result,
                               const ParameterStore<T>& parameters, const Options& options,
                               int world_size) {
  if (formula == nullptr) return result;
  std::vector<std::size_t> counts = {parameters.gradients_and_extras().size()};
  if (options.by_parameter) {
    counts = {step_extras(world_size)};
    for (const Parameter& parameter : parameters.parameters()) counts.push_back(parameter.count);
  }
  for (int rank = 0; rank < world_size; ++rank) {
    Traffic step;
    for (const std::size_t count : counts) {
      step = step + formula(count, sizeof(T), rank, world_size);
    }
    result.traffic_by_formula.push_back(static_cast<std::int64_t>(result.steps.size()) * step);
  }
  return result;
}

}  // namespace ddp
