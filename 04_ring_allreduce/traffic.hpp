#pragma once

#include <bit>
#include <cstdint>

#include "03_naive_allreduce/naive_allreduce.hpp"
#include "03_naive_allreduce/traffic_by_formula.hpp"
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
inline Traffic tree_traffic(std::size_t count, std::size_t size, int, int world_size) {
  if (count == 0) return {};
  const int rounds = std::bit_width(static_cast<unsigned>(world_size)) - 1;
  const auto bytes = rounds * static_cast<std::int64_t>(count * size);
  return {rounds, bytes, rounds, bytes};
}

/// Null for the ones whose messages are cut, or sent by a library.
inline TrafficFormula traffic_formula(AllReduceKind kind) {
  switch (kind) {
    case AllReduceKind::naive:
      return naive_traffic;
    case AllReduceKind::ring:
      return ring_traffic;
    case AllReduceKind::tree:
      return tree_traffic;
    case AllReduceKind::ring_segmented:
    case AllReduceKind::mpi:
    case AllReduceKind::nccl:
      break;
  }
  return nullptr;
}

}  // namespace ddp
