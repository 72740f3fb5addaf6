#pragma once

#include <bit>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "03_naive_allreduce/naive_allreduce.hpp"
#include "04_ring_allreduce/chunk_plan.hpp"
#include "common/cli/options.hpp"

namespace ddp {

/// What one all-reduce of `count` elements of `size` bytes costs `rank` in the ring: 2(N-1)
/// messages of a chunk each. It never sends the chunk that its right neighbour starts with, nor in
/// the second phase the one that its right neighbour finishes.
inline Traffic ring_traffic(std::size_t count, std::size_t size, int rank, int world_size) {
  if (world_size == 1 || count == 0) return {};
  const auto bytes_but = [&](int left_out) {
    const std::size_t chunk = chunk_of(count, world_size, left_out % world_size).count;
    return static_cast<std::int64_t>((count - chunk) * size);
  };
  const std::int64_t messages = 2 * (world_size - 1);
  const std::int64_t sent = bytes_but(rank + 1) + bytes_but(rank + 2);
  const std::int64_t received = bytes_but(rank) + bytes_but(rank + 1);
  return {messages, sent, messages, received};
}

/// The same for recursive doubling: log2(N) exchanges of the whole buffer.
inline Traffic tree_traffic(std::size_t count, std::size_t size, int world_size) {
  if (count == 0) return {};
  const int rounds = std::bit_width(static_cast<unsigned>(world_size)) - 1;
  const auto bytes = rounds * static_cast<std::int64_t>(count * size);
  return {rounds, bytes, rounds, bytes};
}

/// Empty for the ones whose messages are cut or sent by a library.
inline std::optional<Traffic> traffic_of(AllReduceKind kind, std::size_t count, std::size_t size,
                                         int rank, int world_size) {
  switch (kind) {
    case AllReduceKind::naive:
      return naive_traffic(static_cast<std::int64_t>(count * size), rank, world_size);
    case AllReduceKind::ring:
      return ring_traffic(count, size, rank, world_size);
    case AllReduceKind::tree:
      return tree_traffic(count, size, world_size);
    case AllReduceKind::ring_segmented:
    case AllReduceKind::mpi:
      break;
  }
  return std::nullopt;
}

/// Of `steps` steps with all-reduces of `counts` elements of `size` bytes, for every rank; empty
/// where there is no formula.
inline std::vector<Traffic> traffic_of_run(AllReduceKind kind, std::size_t steps,
                                           std::span<const std::size_t> counts, std::size_t size,
                                           int world_size) {
  std::vector<Traffic> ranks;
  for (int rank = 0; rank < world_size; ++rank) {
    Traffic step;
    for (const std::size_t count : counts) {
      const std::optional<Traffic> one = traffic_of(kind, count, size, rank, world_size);
      if (!one) return {};
      step = step + *one;
    }
    ranks.push_back(static_cast<std::int64_t>(steps) * step);
  }
  return ranks;
}

}  // namespace ddp
