#include "common/data/random.hpp"

#include <cmath>
#include <vector>

#include "tests/support/catch.hpp"

namespace ddp {
namespace {

// The known answers for Philox4x32-10 that its authors publish with Random123. The first two words
// of each result make the 64 bits, the first one below.
TEST_CASE("random_bits is Philox4x32-10") {
  CHECK(random_bits(0, 0, 0) == 0xe169c58d6627e8d5);
  constexpr std::uint64_t ones = ~std::uint64_t{0};
  CHECK(random_bits(ones, ones, ones) == 0x41c83b0e408f276d);
  CHECK(random_bits(0x299f31d0a4093822, 0x0370734413198a2e, 0x85a308d3243f6a88) ==
        0x94fdccebd16cfe09);
}

TEST_CASE("Numbers for different uses, numbers, seeds and indices are different") {
  const std::uint64_t one = random_bits(1, random_stream(RandomUse::weights, 0), 0);
  CHECK(one != random_bits(2, random_stream(RandomUse::weights, 0), 0));
  CHECK(one != random_bits(1, random_stream(RandomUse::weights, 1), 0));
  CHECK(one != random_bits(1, random_stream(RandomUse::shuffle, 0), 0));
  CHECK(one != random_bits(1, random_stream(RandomUse::weights, 0), 1));
}

TEST_CASE("uniform keeps the 53 highest bits and stays in [0, 1)") {
  // The highest 53 of 0xe169c58d6627e8d5 are 0x1c2d38b1acc4fd.
  CHECK(uniform(0, 0, 0) == 0x1.c2d38b1acc4fdp-1);
  for (std::uint64_t index = 0; index < 10000; ++index) {
    const double value = uniform(3, 5, index);
    REQUIRE(value >= 0);
    REQUIRE(value < 1);
  }
}

// Five standard errors of the mean of 40,000 numbers, whose seed is fixed: no test by luck.
TEST_CASE("uniform and normal have the right mean and variance") {
  constexpr int count = 40000;
  double sum[2] = {};
  double squares[2] = {};
  for (std::uint64_t index = 0; index < count; ++index) {
    const double values[2] = {uniform(7, 1, index), normal(7, 2, index)};
    for (const int kind : {0, 1}) {
      sum[kind] += values[kind];
      squares[kind] += values[kind] * values[kind];
    }
  }
  CHECK(std::abs(sum[0] / count - 0.5) < 5 * std::sqrt(1.0 / 12 / count));
  CHECK(std::abs(squares[0] / count - 1.0 / 3) < 5 * std::sqrt(4.0 / 45 / count));
  CHECK(std::abs(sum[1] / count) < 5 * std::sqrt(1.0 / count));
  CHECK(std::abs(squares[1] / count - 1) < 5 * std::sqrt(2.0 / count));
}

TEST_CASE("uniform_below reaches every value about equally often, and nothing else") {
  std::vector<int> hits(10, 0);
  for (std::uint32_t index = 0; index < 10000; ++index) ++hits.at(uniform_below(10, 1, 2, index));
  // Each is binomial with deviation 30.
  for (const int hit : hits) CHECK(std::abs(hit - 1000) < 150);
  for (std::uint32_t index = 0; index < 100; ++index) CHECK(uniform_below(1, 1, 2, index) == 0);
  // Half of all draws are rejected for this bound, and the result still fills both halves.
  constexpr std::uint32_t bound = 0x80000001;
  int upper = 0;
  for (std::uint32_t index = 0; index < 10000; ++index) {
    const std::uint32_t value = uniform_below(bound, 1, 2, index);
    REQUIRE(value < bound);
    upper += value >= bound / 2;
  }
  CHECK(std::abs(upper - 5000) < 250);
}

}  // namespace
}  // namespace ddp
