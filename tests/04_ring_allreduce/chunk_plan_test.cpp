#include "04_ring_allreduce/chunk_plan.hpp"

#include <ostream>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/variant.hpp"

namespace ddp {

// For Catch, which would print {?}.
std::ostream& operator<<(std::ostream& out, const Chunk& chunk) {
  return out << "{ offset " << chunk.offset << ", count " << chunk.count << " }";
}

namespace {

std::vector<Chunk> plan(std::size_t count, int ranks) {
  std::vector<Chunk> chunks;
  for (int c = 0; c < ranks; ++c) chunks.push_back(chunk_of(count, ranks, c));
  return chunks;
}

TEST_CASE("AR-01: ten elements on three ranks are chunks of 4, 3 and 3") {
  CHECK(plan(10, 3) == std::vector<Chunk>{{0, 4}, {4, 3}, {7, 3}});
}

TEST_CASE("AR-01: fewer elements than ranks leave the last chunks empty") {
  CHECK(plan(3, 4) == std::vector<Chunk>{{0, 1}, {1, 1}, {2, 1}, {3, 0}});
  CHECK(plan(1, 4) == std::vector<Chunk>{{0, 1}, {1, 0}, {1, 0}, {1, 0}});
  CHECK(plan(0, 2) == std::vector<Chunk>{{0, 0}, {0, 0}});
}

TEST_CASE("counts that divide give equal chunks, one rank has all") {
  CHECK(plan(12, 4) == std::vector<Chunk>{{0, 3}, {3, 3}, {6, 3}, {9, 3}});
  CHECK(plan(7, 1) == std::vector<Chunk>{{0, 7}});
}

TEST_CASE("the plan counts in 64 bits") {
  const std::size_t beyond = (std::size_t{1} << 31) + 7;
  CHECK(plan(beyond, 2) == std::vector<Chunk>{{0, 1073741828}, {1073741828, 1073741827}});
  CHECK(plan(beyond, 4) == std::vector<Chunk>{{0, 536870914},
                                              {536870914, 536870914},
                                              {1073741828, 536870914},
                                              {1610612742, 536870913}});
  // 2^33 + 5 = 3 * 2863311532 + 1: the second and third chunk begin beyond 2^31 and 2^32.
  CHECK(plan((std::size_t{1} << 33) + 5, 3) ==
        std::vector<Chunk>{{0, 2863311533}, {2863311533, 2863311532}, {5726623065, 2863311532}});
}

TEST_CASE("chunks follow each other, cover the buffer and differ by one at most") {
  std::vector<std::size_t> counts = variant_counts(std::size_t{1} << 40);
  for (std::size_t count = 0; count <= 40; ++count) counts.push_back(count);
  for (int ranks = 1; ranks <= 9; ++ranks) {
    for (const std::size_t count : counts) {
      std::size_t end = 0;
      for (const Chunk& chunk : plan(count, ranks)) {
        CAPTURE(ranks, count, chunk.offset, chunk.count);
        CHECK(chunk.offset == end);
        CHECK(chunk.count * static_cast<std::size_t>(ranks) + static_cast<std::size_t>(ranks) >
              count);
        CHECK(chunk.count <= chunk_of(count, ranks, 0).count);
        end += chunk.count;
      }
      CHECK(end == count);
    }
  }
}

}  // namespace
}  // namespace ddp
