#pragma once

#include <span>
#include <vector>

#include "05_nccl_ddp/bucket_plan.hpp"
#include "common/run/ranks.hpp"

namespace ddp {

/// Prints the plan for a person, one line a bucket: --print-buckets.
void print_plan(std::span<const Bucket> plan, std::span<const Parameter> parameters);

/// Throws AgreedError on all ranks unless their plans are equal; it names the first bucket that is
/// not, and both sizes. Ranks that add buckets of different sizes would hang or, worse, add what
/// does not belong together. Collective.
void check_same_plan(std::span<const Bucket> plan, const Ranks& ranks);

}  // namespace ddp
