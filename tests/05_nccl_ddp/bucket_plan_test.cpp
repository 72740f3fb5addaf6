#include "05_nccl_ddp/bucket_plan.hpp"

#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/variant.hpp"

namespace ddp {
namespace {

// The network 784-128-10, as a ParameterStore of floats lays it out.
const std::vector<Parameter> parameters = {{"layers.0.weight", {128, 784}, true, 0, 100352},
                                           {"layers.0.bias", {128}, false, 100352, 128},
                                           {"layers.1.weight", {10, 128}, true, 100480, 1280},
                                           {"layers.1.bias", {10}, false, 101760, 10}};
// The last bias is made up to 64 elements, and five more lie behind it.
constexpr std::size_t total = 101760 + 64 + 5;

std::vector<Bucket> plan(double first_cap, double cap) {
  const std::vector<Bucket> buckets = plan_buckets(parameters, total, 4, first_cap, cap);
  // Whatever the caps: every element is in one bucket, from the end to the beginning.
  std::size_t end = total, parameter = parameters.size(), bytes = 0;
  for (const Bucket& bucket : buckets) {
    CHECK(bucket.begin + bucket.count == end);
    CHECK(bucket.last_parameter + 1 == parameter);
    CHECK(bucket.begin == parameters[bucket.first_parameter].offset);
    end = bucket.begin;
    parameter = bucket.first_parameter;
    bytes += bucket.bytes;
  }
  CHECK(end == 0);
  CHECK(parameter == 0);
  CHECK(bytes == 407080);
  return buckets;
}

std::vector<std::size_t> bytes_of(const std::vector<Bucket>& buckets) {
  std::vector<std::size_t> bytes;
  for (const Bucket& bucket : buckets) bytes.push_back(bucket.bytes);
  return bytes;
}

using Bytes = std::vector<std::size_t>;

TEST_CASE("DD-03: a bucket closes once it has reached its cap, and a parameter is never split") {
  CHECK(bytes_of(plan(1, 1)) == Bytes{40, 5120, 512, 401408});
  CHECK(bytes_of(plan(5000, 5000)) == Bytes{5160, 401920});
  CHECK(bytes_of(plan(5160, 5160)) == Bytes{5160, 401920});  // reached exactly
  CHECK(bytes_of(plan(5161, 5161)) == Bytes{5672, 401408});
  CHECK(bytes_of(plan(1 << 20, 1 << 20)) == Bytes{407080});
  CHECK(bytes_of(plan(1 << 30, 1 << 30)) == Bytes{407080});
}

TEST_CASE(
    "DD-03: all buckets but the last reach any cap, and without their last parameter none does") {
  for (const std::size_t cap : variant_counts(500000)) {
    CAPTURE(cap);
    const auto limit = static_cast<double>(cap);
    const std::vector<Bucket> buckets = plan(limit, limit);
    for (std::size_t b = 0; b < buckets.size(); ++b) {
      // From the end to the beginning: the parameter that came last is the first one.
      const std::size_t last = 4 * parameters[buckets[b].first_parameter].count;
      CHECK((buckets[b].bytes >= cap || b + 1 == buckets.size()));
      CHECK(buckets[b].bytes - last < cap);
    }
  }
}

TEST_CASE("DD-03: a cap of 0 makes one bucket a parameter") {
  CHECK(bytes_of(plan(0, 0)) == Bytes{40, 5120, 512, 401408});
}

TEST_CASE("DD-03: the first bucket has a cap of its own") {
  CHECK(bytes_of(plan(1, 1 << 20)) == Bytes{40, 407040});
  CHECK(bytes_of(plan(1 << 20, 1)) == Bytes{407080});
}

TEST_CASE("Buckets are views of the flat gradient; what lies behind it goes with the first") {
  const std::vector<Bucket> buckets = plan(5000, 5000);
  CHECK(buckets[0].begin == 100480);
  CHECK(buckets[0].count == 1280 + 64 + 5);
  CHECK(buckets[1].begin == 0);
  CHECK(buckets[1].count == 100480);
}

}  // namespace
}  // namespace ddp
