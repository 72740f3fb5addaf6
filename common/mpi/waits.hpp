#pragma once

#include <span>
#include <string>
#include <vector>

#include "common/mpi/last_call.hpp"

namespace ddp::mpi {

struct RankCall {
  int rank = 0;
  LastCall call;
};

/// For each of `calls`, the ranks that it waits for, in rising order. A message has one peer; in a
/// collective call a rank waits for those that have begun fewer of them.
std::vector<std::vector<int>> waits_for(std::span<const RankCall> calls);

/// A cycle in a graph: the first to be met from node 0 upwards, beginning with its smallest node;
/// empty if there is none. `edges[i]` are the nodes that node i waits for, those beyond the graph
/// being ignored. Depth-first search.
std::vector<int> find_cycle(std::span<const std::vector<int>> edges);

/// What holds a job up, in lines that begin with two blanks: each rank's last call, then the cycle
/// of ranks that wait for each other ("0 waits for 1 waits for 0") or, without one, who is missing:
/// the ranks that others wait for and that wait for nobody.
std::string diagnosis(std::span<const RankCall> calls);

}  // namespace ddp::mpi
