#pragma once

#include <utility>
#include <vector>

#include "01_single_gpu/parameter_store.hpp"
#include "common/run/checkpoint.hpp"

namespace ddp {

/// What a run needs to go on as if it had not stopped: parameters as `model.NAME`, their velocities
/// as `optimizer.NAME`, and `more`. Views, not copies.
template <class T, class Optimizer>
std::vector<NamedBuffer<T>> training_state(const ParameterStore<T>& store, const Optimizer& sgd,
                                           std::vector<NamedBuffer<T>> more = {}) {
  std::vector<NamedBuffer<T>> state = std::move(more);
  for (const Parameter& p : store.parameters()) {
    state.push_back({"model." + p.name, p.shape, store.values().subspan(p.offset, p.count)});
    state.push_back({"optimizer." + p.name, p.shape, sgd.velocities().subspan(p.offset, p.count)});
  }
  return state;
}

}  // namespace ddp
