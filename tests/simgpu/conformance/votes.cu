// Votes of a warp, and the functions on bits that their masks are read with.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

struct Votes {
  unsigned ballot;
  int any_of_none, any_of_one, all_of_all, all_but_one;
};

__global__ void vote(Votes* votes, unsigned present) {
  const unsigned lane = threadIdx.x % 32;
  Votes& mine = votes[threadIdx.x];
  mine.ballot = __ballot_sync(present, lane % 3 == 0 ? 1 : 0);
  mine.any_of_none = __any_sync(present, 0);
  mine.any_of_one = __any_sync(present, lane == 4 ? 7 : 0);  // non-zero counts, not only 1
  mine.all_of_all = __all_sync(present, 5);
  mine.all_but_one = __all_sync(present, lane == 4 ? 0 : 1);
}

void check_votes(unsigned lanes) {
  const unsigned present = lanes == 32 ? 0xffffffffU : (1U << lanes) - 1;
  const cuda::Stream stream;
  const cuda::DeviceBuffer<Votes> buffer(lanes);
  cuda::launch<vote>({stream, 1, lanes}, buffer.data(), present);
  for (const Votes& seen : read_back(buffer)) {
    CHECK(seen.ballot == (0x49249249U & present));  // lanes 0, 3, 6, ..., 30
    CHECK(seen.any_of_none == 0);
    CHECK(seen.any_of_one != 0);
    CHECK(seen.all_of_all != 0);
    CHECK(seen.all_but_one == 0);
  }
}

TEST_CASE("votes of a whole and of a partial warp", "[votes]") {
  check_votes(32);
  check_votes(8);
}

__global__ void vote_in_branches(unsigned* ballots, int* all) {
  const unsigned lane = threadIdx.x;
  if (lane < 16) {
    ballots[lane] = __ballot_sync(0x0000ffffU, lane % 2 == 0 ? 1 : 0);
    all[lane] = __all_sync(0x0000ffffU, 1);
  } else {
    ballots[lane] = __ballot_sync(0xffff0000U, lane % 4 == 0 ? 1 : 0);
    all[lane] = __all_sync(0xffff0000U, lane > 16 ? 1 : 0);
  }
}

TEST_CASE("the halves of a warp may vote in branches of their own", "[votes]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned> ballots(32);
  const cuda::DeviceBuffer<int> all(32);
  cuda::launch<vote_in_branches>({stream, 1, 32}, ballots.data(), all.data());
  const std::vector<unsigned> seen = read_back(ballots);
  const std::vector<int> seen_all = read_back(all);
  for (std::size_t lane = 0; lane < 32; ++lane) {
    CHECK(seen[lane] == (lane < 16 ? 0x00005555U : 0x11110000U));
    CHECK((seen_all[lane] != 0) == (lane < 16));
  }
}

struct Bits {
  int population, first_set, leading_zeros;
};

__global__ void count_bits(const int* values, Bits* bits) {
  const int value = values[threadIdx.x];
  bits[threadIdx.x] = {__popc(static_cast<unsigned>(value)), __ffs(value), __clz(value)};
}

TEST_CASE("__popc, __ffs and __clz, also of 0 and of the sign bit", "[votes]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> values = on_device<int>({0, 1, 8, 0x00f0, -1, -2147483647 - 1});
  const cuda::DeviceBuffer<Bits> buffer(6);
  cuda::launch<count_bits>({stream, 1, 6}, values.data(), buffer.data());
  const std::vector<Bits> bits = read_back(buffer);
  const int population[] = {0, 1, 1, 4, 32, 1};
  const int first_set[] = {0, 1, 4, 5, 1, 32};
  const int leading_zeros[] = {32, 31, 28, 24, 0, 0};
  for (std::size_t i = 0; i < bits.size(); ++i) {
    CHECK(bits[i].population == population[i]);
    CHECK(bits[i].first_set == first_set[i]);
    CHECK(bits[i].leading_zeros == leading_zeros[i]);
  }
}

// Packs the even values to the front: a lane's place is the number of takers below it.
__global__ void compact(const int* values, int* packed, int* count) {
  const unsigned lane = threadIdx.x;
  const bool taken = values[lane] % 2 == 0;
  const unsigned takers = __ballot_sync(0xffffffffU, taken ? 1 : 0);
  if (taken) packed[__popc(takers & ((1U << lane) - 1))] = values[lane];
  if (lane == 0) *count = __popc(takers);
}

TEST_CASE("a ballot packs the lanes that say yes", "[votes]") {
  const cuda::Stream stream;
  std::vector<int> values(32), expected;
  for (int i = 0; i < 32; ++i) values[static_cast<std::size_t>(i)] = (i * i + 3 * i / 2) % 50;
  for (const int value : values) {
    if (value % 2 == 0) expected.push_back(value);
  }
  const cuda::DeviceBuffer<int> input = on_device(values);
  const cuda::DeviceBuffer<int> packed = zeros_on_device<int>(32);
  const cuda::DeviceBuffer<int> count(1);
  cuda::launch<compact>({stream, 1, 32}, input.data(), packed.data(), count.data());
  REQUIRE(read_back(count).front() == static_cast<int>(expected.size()));
  std::vector<int> seen = read_back(packed);
  seen.resize(expected.size());
  CHECK(seen == expected);
}

}  // namespace
}  // namespace ddp::conformance
