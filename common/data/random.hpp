#pragma once

#include <cstdint>

namespace ddp {

/// What a stream of random numbers is for. Two uses never share a number, although all of them
/// start from the same seed.
enum class RandomUse : std::uint32_t {
  weights = 1,
  shuffle = 2,
  synthetic_data = 3,
  faint_data = 4
};

/// The stream of a use; `number` tells apart streams of one use, such as parameters or epochs.
constexpr std::uint64_t random_stream(RandomUse use, std::uint32_t number) {
  return (static_cast<std::uint64_t>(use) << 32) | number;
}

/// Random numbers without state: each is a pure function of (seed, stream, index), so it depends
/// neither on the order of the calls nor on the number of ranks or threads. The generator is
/// Philox4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): the seed is
/// its key, stream and index are its counter.

/// 64 independent bits.
std::uint64_t random_bits(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// A multiple of 2^-53 in [0, 1).
double uniform(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// Mean 0, standard deviation 1 (Box and Muller 1958).
double normal(std::uint64_t seed, std::uint64_t stream, std::uint64_t index);

/// An integer in [0, bound), each equally likely to the last bit (bound >= 1).
std::uint32_t uniform_below(std::uint32_t bound, std::uint64_t seed, std::uint64_t stream,
                            std::uint32_t index);

}  // namespace ddp
