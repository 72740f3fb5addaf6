// __syncthreads and __syncwarp: what threads wrote before it is seen by all after it.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr unsigned block_size = 256;

__global__ void reverse_in_block(int* values) {
  __shared__ int tile[block_size];
  const unsigned index = blockIdx.x * block_size + threadIdx.x;
  tile[threadIdx.x] = values[index];
  __syncthreads();
  values[index] = tile[block_size - 1 - threadIdx.x];
}

TEST_CASE("a barrier publishes shared memory to the whole block", "[barriers]") {
  const cuda::Stream stream;
  std::vector<int> values(5 * block_size);
  std::vector<int> expected(values.size());
  for (unsigned i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>(i);
    const unsigned block = i / block_size;
    expected[i] = static_cast<int>(block * block_size + block_size - 1 - i % block_size);
  }
  const cuda::DeviceBuffer<int> buffer = on_device(values);
  cuda::launch<reverse_in_block>({stream, 5, block_size}, buffer.data());
  CHECK(read_back(buffer) == expected);
}

__global__ void rotate_through_global(int* values, unsigned steps) {
  for (unsigned step = 0; step < steps; ++step) {
    const int neighbour = values[(threadIdx.x + 1) % blockDim.x];
    __syncthreads();
    values[threadIdx.x] = neighbour;
    __syncthreads();
  }
}

TEST_CASE("a barrier in a loop orders reads and writes of global memory in a block", "[barriers]") {
  const cuda::Stream stream;
  constexpr unsigned threads = 100, steps = 37;
  std::vector<int> values(threads), expected(threads);
  for (unsigned i = 0; i < threads; ++i) {
    values[i] = static_cast<int>(i * i);
    const unsigned source = (i + steps) % threads;
    expected[i] = static_cast<int>(source * source);
  }
  const cuda::DeviceBuffer<int> buffer = on_device(values);
  cuda::launch<rotate_through_global>({stream, 1, threads}, buffer.data(), steps);
  CHECK(read_back(buffer) == expected);
}

// Threads from `count` on leave before the barrier.
__global__ void sum_of_neighbours(const int* values, int* sums, unsigned count) {
  __shared__ int tile[block_size];
  if (threadIdx.x >= count) return;
  tile[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  sums[threadIdx.x] = tile[threadIdx.x] + tile[(threadIdx.x + 1) % count];
  __syncthreads();
  if (threadIdx.x % 2 == 1) return;
  tile[threadIdx.x] = -sums[threadIdx.x];
  __syncthreads();
  sums[threadIdx.x] += 1000 * tile[(threadIdx.x + 2) % (count + count % 2)];
}

TEST_CASE("threads that returned take no part in later barriers", "[barriers]") {
  const cuda::Stream stream;
  for (const unsigned count : {1U, 31U, 40U, 64U, 200U, 256U}) {
    CAPTURE(count);
    std::vector<int> values(count), expected(count);
    for (unsigned i = 0; i < count; ++i) values[i] = static_cast<int>(i + 1);
    std::vector<int> sums(count);
    for (unsigned i = 0; i < count; ++i) sums[i] = values[i] + values[(i + 1) % count];
    for (unsigned i = 0; i < count; ++i) {
      expected[i] = sums[i];
      if (i % 2 == 0) expected[i] -= 1000 * sums[(i + 2) % (count + count % 2)];
    }
    const cuda::DeviceBuffer<int> input = on_device(values);
    const cuda::DeviceBuffer<int> output = zeros_on_device<int>(count);
    cuda::launch<sum_of_neighbours>({stream, 1, block_size}, input.data(), output.data(), count);
    CHECK(read_back(output) == expected);
  }
}

__global__ void barrier_in_odd_blocks(int* values) {
  __shared__ int tile[64];
  if (blockIdx.x == 2) return;
  const unsigned index = blockIdx.x * 64 + threadIdx.x;
  if (blockIdx.x % 2 == 1) {
    tile[threadIdx.x] = static_cast<int>(index);
    __syncthreads();
    values[index] = tile[63 - threadIdx.x];
  } else {
    values[index] = -1;
  }
}

TEST_CASE("a barrier may stand in a branch that the whole block takes", "[barriers]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> buffer = zeros_on_device<int>(6 * 64);
  cuda::launch<barrier_in_odd_blocks>({stream, 6, 64}, buffer.data());
  std::vector<int> expected(6 * 64, -1);
  for (unsigned i = 0; i < expected.size(); ++i) {
    const unsigned block = i / 64;
    if (block == 2) expected[i] = 0;
    if (block % 2 == 1) expected[i] = static_cast<int>(block * 64 + 63 - i % 64);
  }
  CHECK(read_back(buffer) == expected);
}

__global__ void sum_in_tree(const int* values, int* sums) {
  __shared__ int partial[block_size];
  partial[threadIdx.x] = values[blockIdx.x * block_size + threadIdx.x];
  for (unsigned width = block_size / 2; width > 0; width /= 2) {
    __syncthreads();
    if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
  }
  if (threadIdx.x == 0) sums[blockIdx.x] = partial[0];
}

TEST_CASE("a tree of barriers adds a block", "[barriers]") {
  const cuda::Stream stream;
  std::vector<int> values(3 * block_size);
  std::vector<int> expected(3);
  for (unsigned i = 0; i < values.size(); ++i) {
    values[i] = static_cast<int>((i * 7919) % 1009);
    expected[i / block_size] += values[i];
  }
  const cuda::DeviceBuffer<int> input = on_device(values);
  const cuda::DeviceBuffer<int> sums = zeros_on_device<int>(3);
  cuda::launch<sum_in_tree>({stream, 3, block_size}, input.data(), sums.data());
  CHECK(read_back(sums) == expected);
}

__global__ void rotate_in_warps(int* values, unsigned count) {
  __shared__ int tile[block_size];
  if (threadIdx.x >= count) return;
  const unsigned first = threadIdx.x / 32 * 32;
  const unsigned lanes = count - first < 32 ? count - first : 32;
  const unsigned mask = lanes == 32 ? 0xffffffffU : (1U << lanes) - 1;
  tile[threadIdx.x] = values[threadIdx.x];
  __syncwarp(mask);
  values[threadIdx.x] = tile[first + (threadIdx.x - first + 1) % lanes];
}

TEST_CASE("__syncwarp publishes shared memory to the warp, also to a partial one", "[barriers]") {
  const cuda::Stream stream;
  for (const unsigned count : {32U, 64U, 40U, 129U}) {
    CAPTURE(count);
    std::vector<int> values(count), expected(count);
    for (unsigned i = 0; i < count; ++i) values[i] = static_cast<int>(3 * i + 1);
    for (unsigned i = 0; i < count; ++i) {
      const unsigned first = i / 32 * 32;
      const unsigned lanes = count - first < 32 ? count - first : 32;
      expected[i] = values[first + (i - first + 1) % lanes];
    }
    const cuda::DeviceBuffer<int> buffer = on_device(values);
    cuda::launch<rotate_in_warps>({stream, 1, block_size}, buffer.data(), count);
    CHECK(read_back(buffer) == expected);
  }
}

}  // namespace
}  // namespace ddp::conformance
