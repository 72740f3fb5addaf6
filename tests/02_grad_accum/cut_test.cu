// How a batch is cut: into micro-batches of a size, and into the fixed leaves of pairwise.

#include <numeric>
#include <vector>

#include "02_grad_accum/cut.hpp"
#include "02_grad_accum/micro_batches.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

using Sizes = std::vector<std::size_t>;

// Ids that are not the positions, so that an index cannot pass for a sample.
std::vector<std::uint32_t> samples(std::size_t count) {
  std::vector<std::uint32_t> ids;
  for (std::uint32_t i = 0; i < count; ++i) ids.push_back(100 + 7 * i % 1000);
  return ids;
}

Sizes sizes_of(const std::vector<SampleIds>& parts) {
  Sizes sizes;
  for (const SampleIds part : parts) sizes.push_back(part.size());
  return sizes;
}

std::vector<std::uint32_t> joined(const std::vector<SampleIds>& parts) {
  std::vector<std::uint32_t> all;
  for (const SampleIds part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

}  // namespace

TEST_CASE("10 samples in micro-batches of 4 are 4, 4 and 2") {
  const auto ids = samples(10);
  const auto parts = micro_batches(ids, 4);
  CHECK(sizes_of(parts) == Sizes{4, 4, 2});
  CHECK(joined(parts) == ids);
}

TEST_CASE(
    "micro-batches leave nothing out, take nothing twice, and none but a whole one is empty") {
  for (const std::size_t count : {1U, 2U, 7U, 8U, 9U, 96U}) {
    for (const std::size_t size : {1U, 2U, 3U, 8U, 95U, 96U, 97U, 1000U}) {
      INFO(count << " samples by " << size);
      const auto ids = samples(count);
      const auto parts = micro_batches(ids, size);
      CHECK(joined(parts) == ids);
      CHECK(parts.size() == (count + size - 1) / size);
      for (std::size_t i = 0; i + 1 < parts.size(); ++i) CHECK(parts[i].size() == size);
      CHECK(!parts.back().empty());
    }
  }
  CHECK(sizes_of(micro_batches(SampleIds(), 4)) == Sizes{0});
}

TEST_CASE("a tree has a power of two of leaves, by the global batch") {
  CHECK(leaf_count(256, 256) == 1);
  CHECK(leaf_count(256, 64) == 4);
  CHECK(leaf_count(256, 86) == 4);  // 86, 86, 84 and an empty one
  CHECK(leaf_count(256, 51) == 8);  // 5 x 51, 1, and two empty ones
  CHECK(leaf_count(10, 4) == 4);
  CHECK(leaf_count(1, 1) == 1);
}

TEST_CASE("leaves are positions in a full batch; a short batch leaves the last ones empty") {
  const auto all = samples(16);
  const auto of = [&](std::size_t count, std::size_t rank, std::size_t ranks) {
    return sizes_of(fixed_micro_batches(SampleIds(all).first(count), 4, 4, rank, ranks));
  };
  CHECK(of(16, 0, 1) == Sizes{4, 4, 4, 4});
  CHECK(of(10, 0, 1) == Sizes{4, 4, 2, 0});
  CHECK(of(3, 0, 1) == Sizes{3, 0, 0, 0});
  CHECK(of(0, 0, 1) == Sizes{0, 0, 0, 0});
  CHECK(of(10, 0, 2) == Sizes{4, 4});
  CHECK(of(10, 1, 2) == Sizes{2, 0});
  CHECK(of(4, 1, 2) == Sizes{0, 0});
  CHECK(of(16, 3, 4) == Sizes{4});
  CHECK(of(13, 3, 4) == Sizes{1});
  CHECK(of(12, 3, 4) == Sizes{0});
}

TEST_CASE("the leaves of all ranks are those of one, in order") {
  for (const std::size_t count : {0U, 1U, 5U, 31U, 32U}) {
    const auto ids = samples(count);
    const auto alone = fixed_micro_batches(ids, 4, 8, 0, 1);
    CHECK(joined(alone) == ids);
    for (const std::size_t ranks : {2U, 4U, 8U}) {
      INFO(count << " samples on " << ranks << " ranks");
      std::vector<SampleIds> together;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        const auto mine = fixed_micro_batches(ids, 4, 8, rank, ranks);
        CHECK(mine.size() == 8 / ranks);
        together.insert(together.end(), mine.begin(), mine.end());
      }
      CHECK(sizes_of(together) == sizes_of(alone));
      CHECK(joined(together) == ids);
    }
  }
}

TEST_CASE("the options decide the cut: a micro-batch of 0 or too many samples is the whole batch") {
  const auto ids = samples(10);
  Options options;
  options.global_batch = 10;
  const auto cut = [&](Accumulate accumulate, int micro_batch) {
    options.accumulate = accumulate;
    options.micro_batch = micro_batch;
    return sizes_of(micro_batch_cut(options)(ids, 0, 1));
  };
  for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
    CHECK(cut(accumulate, 0) == Sizes{10});
    CHECK(micro_batch_size(options) == 10);
    CHECK(cut(accumulate, 11) == Sizes{10});
    CHECK(micro_batch_size(options) == 10);  // what memory is allocated for
    CHECK(cut(accumulate, 5) == Sizes{5, 5});
    CHECK(micro_batch_size(options) == 5);
  }
  CHECK(cut(Accumulate::running, 4) == Sizes{4, 4, 2});
  CHECK(cut(Accumulate::pairwise, 4) == Sizes{4, 4, 2, 0});
  CHECK(cut(Accumulate::pairwise, 2) == Sizes{2, 2, 2, 2, 2, 0, 0, 0});
}

}  // namespace ddp
