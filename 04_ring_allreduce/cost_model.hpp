#pragma once

#include <cstddef>

#include "common/cli/options.hpp"

namespace ddp {

/// What a link costs: a message of n bytes takes latency + n / bandwidth.
struct Link {
  double latency_seconds;   ///< alpha
  double bytes_per_second;  ///< beta
};

/// The faster one of naive and ring for a buffer of so many bytes on 2 or more ranks, by the
/// costs of the two, where every rank has one such link:
///
///     naive   2 alpha       +  2(N-1)   * bytes / beta      the root's link carries all
///     ring    2(N-1) alpha  +  2(N-1)/N * bytes / beta      every link carries the same
///
/// Naive where they cost the same: it is simpler.
inline AllReduceKind faster_all_reduce(int ranks, std::size_t bytes, Link link) {
  // [exercise 4.5] Compute both costs and choose.
  const double others = ranks - 1;
  const double whole_buffer = static_cast<double>(bytes) / link.bytes_per_second;
  const double naive = 2 * link.latency_seconds + 2 * others * whole_buffer;
  const double ring = 2 * others * link.latency_seconds + 2 * others / ranks * whole_buffer;
  return ring < naive ? AllReduceKind::ring : AllReduceKind::naive;
  // [/exercise]
}

}  // namespace ddp
