#include "common/mpi/waits.hpp"

#include <fmt/core.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <set>

namespace ddp::mpi {
namespace {

enum class Mark { unseen, on_path, done };

// Extends `path`, the way from the start to `node`; true once its end closes a cycle.
bool closes_cycle(std::span<const std::vector<int>> edges, std::size_t node,
                  std::vector<Mark>& marks, std::vector<int>& path) {
  marks[node] = Mark::on_path;
  path.push_back(static_cast<int>(node));
  for (const int next_node : edges[node]) {
    const auto next = static_cast<std::size_t>(next_node);
    if (next_node < 0 || next >= edges.size()) continue;
    if (marks[next] == Mark::on_path) {
      path.erase(path.begin(), std::find(path.begin(), path.end(), next_node));
      return true;
    }
    if (marks[next] == Mark::unseen && closes_cycle(edges, next, marks, path)) return true;
  }
  marks[node] = Mark::done;
  path.pop_back();
  return false;
}

// The graph by rank: edges of those that are not in `calls` are empty.
std::vector<std::vector<int>> edges_by_rank(std::span<const RankCall> calls) {
  const std::vector<std::vector<int>> waits = waits_for(calls);
  std::vector<std::vector<int>> edges;
  for (std::size_t i = 0; i < calls.size(); ++i) {
    const auto rank = static_cast<std::size_t>(calls[i].rank);
    if (edges.size() <= rank) edges.resize(rank + 1);
    edges[rank] = waits[i];
  }
  return edges;
}

std::string missing_ranks(std::span<const RankCall> calls) {
  std::set<int> wanted;
  for (const std::vector<int>& waits : waits_for(calls)) wanted.insert(waits.begin(), waits.end());
  std::string text;
  for (const int rank : wanted) {
    const auto found =
        std::find_if(calls.begin(), calls.end(), [&](auto& call) { return call.rank == rank; });
    if (found == calls.end()) {
      text += fmt::format("  missing: rank {}, on another host or gone\n", rank);
    } else if (!found->call.waiting) {
      text += fmt::format("  missing: rank {}; others wait for it, and it is in no call\n", rank);
    }
  }
  return text;
}

}  // namespace

std::vector<std::vector<int>> waits_for(std::span<const RankCall> calls) {
  std::vector<std::vector<int>> waits;
  for (const auto& [rank, call] : calls) {
    std::vector<int>& peers = waits.emplace_back();
    if (!call.waiting) continue;
    if (!is_collective(call.kind)) {
      peers.push_back(call.peer);
      continue;
    }
    for (const auto& [other_rank, other] : calls) {
      if (other.collectives < call.collectives) peers.push_back(other_rank);
    }
    std::sort(peers.begin(), peers.end());
  }
  return waits;
}

std::vector<int> find_cycle(std::span<const std::vector<int>> edges) {
  std::vector<Mark> marks(edges.size(), Mark::unseen);
  for (std::size_t start = 0; start < edges.size(); ++start) {
    std::vector<int> path;
    if (marks[start] == Mark::unseen && closes_cycle(edges, start, marks, path)) {
      std::rotate(path.begin(), std::min_element(path.begin(), path.end()), path.end());
      return path;
    }
  }
  return {};
}

std::string diagnosis(std::span<const RankCall> calls) {
  std::string text;
  for (const auto& [rank, call] : calls) {
    text += fmt::format("  rank {}: step {}, {}\n", rank, call.step, text_of(call));
  }
  const std::vector<int> cycle = find_cycle(edges_by_rank(calls));
  if (cycle.empty()) return text + missing_ranks(calls);
  text += "  deadlock: ";
  for (const int rank : cycle) text += fmt::format("{} waits for ", rank);
  return text + fmt::format("{}\n", cycle.front());
}

}  // namespace ddp::mpi
