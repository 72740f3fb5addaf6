// __shfl_sync and its siblings: whole warps, partial warps, groups narrower than a warp.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr unsigned whole_warp = 0xffffffffU;

// What one lane received from each kind of shuffle.
struct Received {
  int indexed, up, down, exchanged;
};

// Lane `l` offers 100 + l. The offsets may reach past the group, on purpose.
__global__ void shuffle_all_ways(Received* received, int source, unsigned delta, int lane_mask,
                                 int width) {
  const int value = 100 + static_cast<int>(threadIdx.x);
  Received& mine = received[threadIdx.x];
  mine.indexed = __shfl_sync(whole_warp, value, source, width);
  mine.up = __shfl_up_sync(whole_warp, value, delta, width);
  mine.down = __shfl_down_sync(whole_warp, value, delta, width);
  mine.exchanged = __shfl_xor_sync(whole_warp, value, lane_mask, width);
}

void check_shuffles(int source, int delta, int lane_mask, int width) {
  CAPTURE(source, delta, lane_mask, width);
  const cuda::Stream stream;
  const cuda::DeviceBuffer<Received> buffer(32);
  cuda::launch<shuffle_all_ways>({stream, 1, 32}, buffer.data(), source, delta, lane_mask, width);
  const std::vector<Received> received = read_back(buffer);
  for (int lane = 0; lane < 32; ++lane) {
    CAPTURE(lane);
    const Received& seen = received[static_cast<std::size_t>(lane)];
    const int first = lane / width * width;
    const int in_group = lane - first;
    // A source outside the group wraps around in it.
    CHECK(seen.indexed == 100 + first + ((source % width) + width) % width);
    // Up and down do not wrap: a lane without a source keeps its own value.
    CHECK(seen.up == 100 + (in_group >= delta ? lane - delta : lane));
    CHECK(seen.down == 100 + (in_group + delta < width ? lane + delta : lane));
    // An exchange may read an earlier group, not a later one.
    const int partner = lane ^ lane_mask;
    CHECK(seen.exchanged == 100 + (partner < first + width ? partner : lane));
  }
}

TEST_CASE("shuffles over a whole warp", "[shuffles]") {
  check_shuffles(0, 1, 1, 32);
  check_shuffles(31, 16, 16, 32);
  check_shuffles(7, 31, 31, 32);
  check_shuffles(5, 0, 0, 32);
  check_shuffles(33, 5, 9, 32);
}

TEST_CASE("shuffles within groups narrower than a warp", "[shuffles]") {
  for (const int width : {1, 2, 4, 8, 16}) {
    check_shuffles(0, 1, 1, width);
    check_shuffles(width - 1, width / 2, width / 2, width);
    check_shuffles(width + 1, width, width, width);
    check_shuffles(3, 3, 19, width);
  }
}

__global__ void source_by_lane(int* received) {
  const int lane = static_cast<int>(threadIdx.x);
  received[threadIdx.x] = __shfl_sync(whole_warp, lane * lane, (lane * 5 + 3) % 32);
}

TEST_CASE("each lane may read another lane", "[shuffles]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> buffer(32);
  cuda::launch<source_by_lane>({stream, 1, 32}, buffer.data());
  std::vector<int> expected(32);
  for (int lane = 0; lane < 32; ++lane) {
    const int source = (lane * 5 + 3) % 32;
    expected[static_cast<std::size_t>(lane)] = source * source;
  }
  CHECK(read_back(buffer) == expected);
}

template <class T>
__global__ void rotate_warps(const T* values, T* received, unsigned count) {
  const unsigned index = threadIdx.x;
  if (index >= count) return;
  const unsigned first = index / 32 * 32;
  const unsigned lanes = count - first < 32 ? count - first : 32;
  const unsigned mask = lanes == 32 ? whole_warp : (1U << lanes) - 1;
  const int source = static_cast<int>((index - first + 1) % lanes);
  received[index] = __shfl_sync(mask, values[index], source);
}

template <class T>
void check_rotation(unsigned count, T scale) {
  CAPTURE(count);
  const cuda::Stream stream;
  std::vector<T> values(count), expected(count);
  for (unsigned i = 0; i < count; ++i) values[i] = static_cast<T>(i) * scale;
  for (unsigned i = 0; i < count; ++i) {
    const unsigned first = i / 32 * 32;
    const unsigned lanes = count - first < 32 ? count - first : 32;
    expected[i] = values[first + (i - first + 1) % lanes];
  }
  const cuda::DeviceBuffer<T> input = on_device(values);
  const cuda::DeviceBuffer<T> output(count);
  cuda::launch<rotate_warps<T>>({stream, 1, 256}, input.data(), output.data(), count);
  CHECK(read_back(output) == expected);
}

TEST_CASE("shuffles over a partial last warp, its mask naming the lanes that are there",
          "[shuffles]") {
  for (const unsigned count : {1U, 8U, 40U, 95U, 256U}) check_rotation<int>(count, 3);
}

TEST_CASE("shuffles of every arithmetic type keep all bits", "[shuffles]") {
  check_rotation<int>(64, -30000001);
  check_rotation<unsigned>(64, 67000001U);
  check_rotation<long long>(64, -1234567890123LL);
  check_rotation<unsigned long long>(64, 0x0123456789abcdefULL);
  check_rotation<float>(64, 0.1F);
  check_rotation<double>(64, 1e-300 / 3);
}

__global__ void linear_lane_order(int* first_in_warp) {
  const unsigned linear = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  first_in_warp[linear] = __shfl_sync(whole_warp, static_cast<int>(linear), 0);
}

TEST_CASE("a warp is 32 threads in order of x, then y, then z", "[shuffles]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> buffer(4 * 4 * 6);
  cuda::launch<linear_lane_order>({stream, 1, dim3(4, 4, 6)}, buffer.data());
  std::vector<int> expected(4 * 4 * 6);
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<int>(i / 32 * 32);
  CHECK(read_back(buffer) == expected);
}

// Adds a block: a tree in each warp, then a tree over the warps' sums.
__global__ void sum_block(const int* values, int* sum, unsigned count) {
  __shared__ int warp_sums[32];
  const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  int total = 0;
  for (unsigned i = threadIdx.x; i < count; i += blockDim.x) total += values[i];
  for (unsigned delta = 16; delta > 0; delta /= 2) {
    total += __shfl_down_sync(whole_warp, total, delta);
  }
  if (lane == 0) warp_sums[warp] = total;
  __syncthreads();
  if (warp > 0) return;
  total = lane < blockDim.x / 32 ? warp_sums[lane] : 0;
  for (int mask = 16; mask > 0; mask /= 2) total += __shfl_xor_sync(whole_warp, total, mask);
  if (lane == 3) *sum = total;  // after an exchange in a butterfly every lane has the sum
}

TEST_CASE("shuffles and one barrier add a block", "[shuffles]") {
  const cuda::Stream stream;
  for (const unsigned count : {1U, 1000U, 4099U}) {
    std::vector<int> values(count);
    int expected = 0;
    for (unsigned i = 0; i < count; ++i) {
      values[i] = static_cast<int>(i * 31 % 257) - 100;
      expected += values[i];
    }
    const cuda::DeviceBuffer<int> input = on_device(values);
    const cuda::DeviceBuffer<int> sum = zeros_on_device<int>(1);
    cuda::launch<sum_block>({stream, 1, 512}, input.data(), sum.data(), count);
    CHECK(read_back(sum).front() == expected);
  }
}

// Only the even lanes talk, in a branch of their own.
__global__ void sum_even_lanes(int* sums) {
  const int lane = static_cast<int>(threadIdx.x);
  if (lane % 2 == 1) return;
  int total = lane;
  for (int mask = 16; mask > 1; mask /= 2) total += __shfl_xor_sync(0x55555555U, total, mask);
  sums[lane / 2] = total;
}

TEST_CASE("a mask may leave out lanes that do not take part", "[shuffles]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> sums(16);
  cuda::launch<sum_even_lanes>({stream, 1, 32}, sums.data());
  CHECK(read_back(sums) == std::vector<int>(16, 240));  // 0 + 2 + ... + 30
}

}  // namespace
}  // namespace ddp::conformance
