#include "05_nccl_ddp/plan_text.hpp"

#include <fmt/core.h>

#include <cstring>
#include <string>

#include "common/errors.hpp"

namespace ddp {
namespace {

std::vector<Bucket> plan_from(const std::string& bytes) {
  std::vector<Bucket> plan(bytes.size() / sizeof(Bucket));
  std::memcpy(plan.data(), bytes.data(), plan.size() * sizeof(Bucket));
  return plan;
}

std::string size_text(std::span<const Bucket> plan, std::size_t bucket) {
  if (bucket >= plan.size()) return "is missing";
  return fmt::format("has {} elements from {} on", plan[bucket].count, plan[bucket].begin);
}

}  // namespace

void print_plan(std::span<const Bucket> plan, std::span<const Parameter> parameters) {
  fmt::print("bucket       bytes  parameters\n");
  std::size_t total = 0;
  for (std::size_t b = 0; b < plan.size(); ++b) {
    std::string names;
    for (std::size_t p = plan[b].last_parameter + 1; p-- > plan[b].first_parameter;) {
      names += (names.empty() ? "" : ", ") + parameters[p].name;
    }
    fmt::print("{:>6}  {:>10}  {}\n", b, plan[b].bytes, names);
    total += plan[b].bytes;
  }
  fmt::print(" total  {:>10}\n", total);
}

void check_same_plan(std::span<const Bucket> plan, const Ranks& ranks) {
  const std::string mine(reinterpret_cast<const char*>(plan.data()), plan.size_bytes());
  const std::vector<std::string> all = ranks.all_gather(mine);
  const std::vector<Bucket> first = plan_from(all.front());
  for (std::size_t rank = 1; rank < all.size(); ++rank) {
    if (all[rank] == all.front()) continue;
    const std::vector<Bucket> other = plan_from(all[rank]);
    std::size_t bucket = 0;
    while (bucket < first.size() && bucket < other.size() &&
           std::memcmp(&first[bucket], &other[bucket], sizeof(Bucket)) == 0) {
      ++bucket;
    }
    throw AgreedError(
        ExitCode::peer,
        fmt::format("the ranks differ in their buckets: bucket {} {} on rank 0 and {} "
                    "on rank {}; all need the same model and the same options",
                    bucket, size_text(first, bucket), size_text(other, bucket), rank));
  }
}

}  // namespace ddp
