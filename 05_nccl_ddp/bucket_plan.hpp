#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "01_single_gpu/parameter_store.hpp"

namespace ddp {

/// Parameters whose gradients are all-reduced together: a contiguous part of the flat gradient.
struct Bucket {
  std::size_t first_parameter, last_parameter;  ///< indices in order of the model, both included
  std::size_t begin, count;                     ///< elements of the flat gradient, with padding
  std::size_t bytes;                            ///< of the gradients alone
};

/// Shares out the parameters among buckets, in the order in which the backward pass makes their
/// gradients: the last parameter first. A bucket takes parameters until it has reached its cap, so
/// that it may exceed it, a parameter is never split, and a cap of 0 makes one bucket a parameter.
/// (Li et al. 2020, section 3.2.3, with DDP's small first bucket, so that communication starts
/// early.) The buckets are views of one buffer of `total` elements of `element_size` bytes; what
/// lies behind the last parameter belongs to the first bucket.
///
/// A pure function of what all ranks know: they come to the same plan without talking.
inline std::vector<Bucket> plan_buckets(std::span<const Parameter> parameters, std::size_t total,
                                        std::size_t element_size, double first_cap_bytes,
                                        double cap_bytes) {
  std::vector<Bucket> buckets;
  // [exercise 5.1] From the last parameter to the first; close a bucket that has reached its cap.
  std::size_t end = total, bytes = 0, last = parameters.size() - 1;
  for (std::size_t p = parameters.size(); p-- > 0;) {
    bytes += parameters[p].count * element_size;
    const double cap = buckets.empty() ? first_cap_bytes : cap_bytes;
    if (static_cast<double>(bytes) < cap && p > 0) continue;
    buckets.push_back({p, last, parameters[p].offset, end - parameters[p].offset, bytes});
    end = parameters[p].offset;
    bytes = 0;
    last = p - 1;
  }
  // [/exercise]
  return buckets;
}

}  // namespace ddp
