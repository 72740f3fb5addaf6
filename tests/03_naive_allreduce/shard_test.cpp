#include "03_naive_allreduce/shard.hpp"

#include <numeric>
#include <vector>

#include "03_naive_allreduce/rank_cut.hpp"
#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/variant.hpp"

namespace ddp {
namespace {

std::vector<std::uint32_t> ids(std::size_t count) {
  std::vector<std::uint32_t> samples(count);
  std::iota(samples.begin(), samples.end(), 1000U);
  return samples;
}

std::vector<std::size_t> sizes(std::size_t count, int world_size) {
  const std::vector<std::uint32_t> samples = ids(count);
  std::vector<std::size_t> result;
  for (int rank = 0; rank < world_size; ++rank) {
    result.push_back(shard_of(samples, rank, world_size).size());
  }
  return result;
}

TEST_CASE("SH-03: shards differ by at most one sample, the larger ones first") {
  using Sizes = std::vector<std::size_t>;
  CHECK(sizes(10, 4) == Sizes{3, 3, 2, 2});
  CHECK(sizes(2, 4) == Sizes{1, 1, 0, 0});
  CHECK(sizes(96, 4) == Sizes{24, 24, 24, 24});
  CHECK(sizes(7, 1) == Sizes{7});
  CHECK(sizes(0, 3) == Sizes{0, 0, 0});
  CHECK(sizes(3, 7) == Sizes{1, 1, 1, 0, 0, 0, 0});
}

TEST_CASE("All shards together are the batch, each sample once and in order") {
  std::vector<std::size_t> counts = variant_counts(1000);
  counts.insert(counts.end(), {0, 1, 2, 10, 17, 96, 256});
  for (const std::size_t count : counts) {
    const std::vector<std::uint32_t> samples = ids(count);
    for (const int world_size : {1, 2, 3, 4, 7}) {
      std::vector<std::uint32_t> together;
      CAPTURE(count, world_size);
      for (int rank = 0; rank < world_size; ++rank) {
        const SampleIds shard = shard_of(samples, rank, world_size);
        together.insert(together.end(), shard.begin(), shard.end());
      }
      CHECK(together == samples);
    }
  }
}

std::vector<std::vector<std::uint32_t>> cut_of(const Options& options, std::size_t count, int rank,
                                               int world_size) {
  const std::vector<std::uint32_t> samples = ids(count);
  std::vector<std::vector<std::uint32_t>> parts;
  for (const SampleIds part : rank_cut(options)(samples, rank, world_size)) {
    parts.emplace_back(part.begin(), part.end());
  }
  return parts;
}

TEST_CASE("SH-02: a rank without samples has one empty micro-batch, so that it takes part") {
  Options options;
  options.global_batch = 4;
  for (const int rank : {2, 3}) {
    const auto parts = cut_of(options, 2, rank, 4);
    REQUIRE(parts.size() == 1);
    CHECK(parts[0].empty());
  }
}

TEST_CASE("Pairwise: each rank owns the same positions whatever the length of the batch") {
  Options options;
  options.accumulate = Accumulate::pairwise;
  options.global_batch = 12;
  options.micro_batch = 2;  // 6 micro-batches, made up to 8
  CHECK(leaves_of_a_rank(options, 1) == 8);
  CHECK(leaves_of_a_rank(options, 4) == 2);
  using Parts = std::vector<std::vector<std::uint32_t>>;
  CHECK(cut_of(options, 12, 1, 4) == Parts{{1004, 1005}, {1006, 1007}});
  CHECK(cut_of(options, 12, 3, 4) == Parts{{}, {}});
  CHECK(cut_of(options, 7, 1, 4) == Parts{{1004, 1005}, {1006}});  // a short last batch
  CHECK(cut_of(options, 7, 2, 4) == Parts{{}, {}});
  for (const int world_size : {1, 2, 4, 8}) {  // the leaves are the same for all
    Parts all;
    for (int rank = 0; rank < world_size; ++rank) {
      for (const auto& part : cut_of(options, 7, rank, world_size)) all.push_back(part);
    }
    CHECK(all == cut_of(options, 7, 0, 1));
  }
}

TEST_CASE("Pairwise: a number of ranks that would cut the tree is refused with the numbers") {
  Options options;
  options.accumulate = Accumulate::pairwise;
  options.global_batch = 12;
  options.micro_batch = 4;
  for (const int world_size : {3, 8}) {
    const std::string message =
        error_of<OptionError>([&] { leaves_of_a_rank(options, world_size); });
    CHECK(message.find("pairwise has 4 micro-batches") != std::string::npos);
    CHECK(message.find("not " + std::to_string(world_size)) != std::string::npos);
  }
}

TEST_CASE("The largest micro-batch of any rank is what its buffers are made for") {
  Options options;
  options.global_batch = 10;
  CHECK(rank_micro_batch_size(options, 4) == 3);
  CHECK(rank_micro_batch_size(options, 1) == 10);
  options.micro_batch = 2;
  CHECK(rank_micro_batch_size(options, 4) == 2);
  for (const int world_size : {1, 2, 3, 4}) {
    std::size_t largest = 0;
    for (int rank = 0; rank < world_size; ++rank) {
      for (const auto& part : cut_of(options, 10, rank, world_size)) {
        largest = std::max(largest, part.size());
      }
    }
    CHECK(static_cast<int>(largest) == rank_micro_batch_size(options, world_size));
  }
}

}  // namespace
}  // namespace ddp
