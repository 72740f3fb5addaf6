#include "common/data/random.hpp"

#include <Random123/philox.h>

#include <array>
#include <cmath>
#include <numbers>

namespace ddp {
namespace {

std::uint32_t low(std::uint64_t bits) { return static_cast<std::uint32_t>(bits); }
std::uint32_t high(std::uint64_t bits) { return static_cast<std::uint32_t>(bits >> 32); }

// One call of the generator gives 128 bits.
std::array<std::uint64_t, 2> philox(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const r123::Philox4x32::ctr_type counter{{low(index), high(index), low(stream), high(stream)}};
  const r123::Philox4x32::key_type key{{low(seed), high(seed)}};
  const r123::Philox4x32::ctr_type words = r123::Philox4x32()(counter, key);
  return {std::uint64_t{words[1]} << 32 | words[0], std::uint64_t{words[3]} << 32 | words[2]};
}

double unit_interval(std::uint64_t bits) { return static_cast<double>(bits >> 11) * 0x1p-53; }

}  // namespace

std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox(seed, stream, index)[0];
}

double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return unit_interval(random_bits(seed, stream, index));
}

double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const auto [first, second] = philox(seed, stream, index);
  const double radius = std::sqrt(-2 * std::log(1 - unit_interval(first)));  // never the log of 0
  return radius * std::cos(2 * std::numbers::pi * unit_interval(second));
}

std::uint32_t uniform_below(std::uint32_t bound, std::uint64_t seed, std::uint64_t stream,
                            std::uint32_t index) {
  // Lemire 2019, "Fast random integer generation in an interval": the high half of bits * bound is
  // in range, and every value is equally likely once the first 2^32 mod bound low halves are
  // rejected. A rejected draw is repeated at an index that no other number uses.
  const std::uint32_t rejected = (0 - bound) % bound;
  for (std::uint64_t attempt = 0;; ++attempt) {
    const std::uint64_t product =
        std::uint64_t{low(random_bits(seed, stream, attempt << 32 | index))} * bound;
    if (low(product) >= rejected) return high(product);
  }
}

}  // namespace ddp
