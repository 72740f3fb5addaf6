#include <algorithm>
#include <numeric>
#include <vector>

#include "common/data/batch_sampler.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

using Samples = std::vector<std::uint32_t>;

Samples batch_of(BatchSampler& sampler, std::int64_t step) {
  const auto batch = sampler.batch(step);
  return Samples(batch.begin(), batch.end());
}

Samples epoch_of(BatchSampler& sampler, int epoch) {
  Samples all;
  const std::int64_t steps = sampler.steps_per_epoch();
  for (std::int64_t step = (epoch - 1) * steps + 1; step <= epoch * steps; ++step) {
    const Samples batch = batch_of(sampler, step);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

Samples numbers_to(std::uint32_t count) {
  Samples numbers(count);
  std::iota(numbers.begin(), numbers.end(), 0u);
  return numbers;
}

TEST_CASE("Every epoch visits each sample exactly once; the last batch is short") {
  BatchSampler sampler(60000, 256, 1, true);
  REQUIRE(sampler.steps_per_epoch() == 235);
  for (const int epoch : {1, 2, 3}) {
    const std::int64_t last = epoch * 235;
    CHECK(sampler.batch(last - 1).size() == 256);
    CHECK(sampler.batch(last).size() == 96);
    CHECK(sampler.epoch_of(last) == epoch);
    CHECK(sampler.epoch_of(last + 1) == epoch + 1);
    Samples samples = epoch_of(sampler, epoch);
    CHECK(samples != numbers_to(60000));
    std::sort(samples.begin(), samples.end());
    CHECK(samples == numbers_to(60000));
  }
}

TEST_CASE("Steps in an epoch for sizes that divide and sizes that do not") {
  CHECK(BatchSampler(10, 5, 1, true).steps_per_epoch() == 2);
  CHECK(BatchSampler(11, 5, 1, true).steps_per_epoch() == 3);
  CHECK(BatchSampler(9, 5, 1, true).steps_per_epoch() == 2);
  CHECK(BatchSampler(3, 256, 1, true).steps_per_epoch() == 1);
  CHECK(BatchSampler(3, 256, 1, true).batch(1).size() == 3);
  CHECK(BatchSampler(1, 1, 1, true).batch(7).front() == 0);
}

TEST_CASE("The order depends on seed and epoch, and on nothing else") {
  BatchSampler one(1000, 64, 5, true);
  BatchSampler same(1000, 64, 5, true);
  BatchSampler other_seed(1000, 64, 6, true);
  BatchSampler other_batch(1000, 7, 5, true);
  const Samples first = epoch_of(one, 1);
  const Samples second = epoch_of(one, 2);
  const Samples third = epoch_of(one, 3);
  CHECK(first != second);
  CHECK(first != third);
  CHECK(epoch_of(same, 3) == third);  // without the epochs before it
  CHECK(epoch_of(same, 2) == second);
  CHECK(epoch_of(same, 1) == first);
  CHECK(epoch_of(other_seed, 1) != first);
  CHECK(epoch_of(other_batch, 1) == first);
}

TEST_CASE("Without shuffling the order is that of the data set") {
  BatchSampler sampler(10, 4, 1, false);
  for (const int epoch : {1, 2}) CHECK(epoch_of(sampler, epoch) == numbers_to(10));
  CHECK(batch_of(sampler, 3) == Samples{8, 9});
  CHECK(batch_of(sampler, 4) == Samples{0, 1, 2, 3});
}

TEST_CASE("All orders of three samples come up equally often") {
  std::vector<int> counts(9 * 3, 0);
  BatchSampler sampler(3, 3, 1, true);
  for (int epoch = 1; epoch <= 6000; ++epoch) {
    const auto batch = sampler.batch(epoch);
    ++counts.at(batch[0] * 9 + batch[1] * 3 + batch[2]);
  }
  int orders = 0;
  for (const int count : counts) {
    if (count == 0) continue;
    ++orders;
    CHECK(std::abs(count - 1000) < 150);  // binomial, deviation 29
  }
  CHECK(orders == 6);
}

TEST_CASE("A batch stays valid while the first one of the next epoch is prepared") {
  BatchSampler sampler(1000, 300, 1, true);
  const auto last = sampler.batch(4);
  const Samples before(last.begin(), last.end());
  sampler.batch(5);
  CHECK(std::equal(last.begin(), last.end(), before.begin(), before.end()));
}

}  // namespace
}  // namespace ddp
