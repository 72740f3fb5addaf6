// Shared memory whose size the kernel knows, and shared memory whose size the launch gives.
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr unsigned tile_size = 16;

__global__ void transpose(const float* input, float* output, unsigned rows, unsigned columns) {
  __shared__ float tile[tile_size][tile_size + 1];
  const unsigned column = blockIdx.x * tile_size + threadIdx.x;
  const unsigned row = blockIdx.y * tile_size + threadIdx.y;
  if (row < rows && column < columns) {
    tile[threadIdx.y][threadIdx.x] = input[row * columns + column];
  }
  __syncthreads();
  const unsigned out_column = blockIdx.y * tile_size + threadIdx.x;
  const unsigned out_row = blockIdx.x * tile_size + threadIdx.y;
  if (out_row < columns && out_column < rows) {
    output[out_row * rows + out_column] = tile[threadIdx.x][threadIdx.y];
  }
}

TEST_CASE("static shared memory: a transposition in tiles", "[shared]") {
  const cuda::Stream stream;
  constexpr unsigned rows = 37, columns = 50;
  std::vector<float> values(rows * columns), expected(rows * columns);
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned column = 0; column < columns; ++column) {
      values[row * columns + column] = static_cast<float>(row * 100 + column);
      expected[column * rows + row] = values[row * columns + column];
    }
  const cuda::DeviceBuffer<float> input = on_device(values);
  const cuda::DeviceBuffer<float> output = zeros_on_device<float>(rows * columns);
  const dim3 grid(cuda::blocks_for(columns, tile_size), cuda::blocks_for(rows, tile_size));
  cuda::launch<transpose>({stream, grid, dim3(tile_size, tile_size)}, input.data(), output.data(),
                          rows, columns);
  CHECK(read_back(output) == expected);
}

template <class T>
__global__ void reverse(T* values) {
  DDP_DYNAMIC_SHARED(T, tile);
  tile[threadIdx.x] = values[threadIdx.x];
  __syncthreads();
  values[threadIdx.x] = tile[blockDim.x - 1 - threadIdx.x];
}

template <class T>
void check_reverse(unsigned threads) {
  const cuda::Stream stream;
  std::vector<T> values(threads), expected(threads);
  for (unsigned i = 0; i < threads; ++i) values[i] = expected[threads - 1 - i] = static_cast<T>(i);
  const cuda::DeviceBuffer<T> buffer = on_device(values);
  cuda::launch<reverse<T>>({stream, 1, threads, threads * sizeof(T)}, buffer.data());
  CHECK(read_back(buffer) == expected);
}

TEST_CASE("dynamic shared memory has the size and the type that the launch and kernel name",
          "[shared]") {
  for (const unsigned threads : {1U, 33U, 1024U}) {
    check_reverse<int>(threads);
    check_reverse<double>(threads);
    check_reverse<unsigned char>(threads);
  }
}

struct Scratch {
  int counts[8];
};

// Several static arrays and the dynamic one, cut into two parts, must not overlap.
__global__ void use_all_kinds(int* output) {
  __shared__ int small[4];
  __shared__ Scratch scratch;
  __shared__ double wide[3];
  DDP_DYNAMIC_SHARED(int, dynamic);
  int* const second_part = dynamic + 10;
  const int thread = static_cast<int>(threadIdx.x);
  if (thread < 4) small[thread] = 1000 + thread;
  if (thread < 8) scratch.counts[thread] = 2000 + thread;
  if (thread < 3) wide[thread] = 3000 + thread;
  if (thread < 10) dynamic[thread] = 4000 + thread;
  if (thread < 6) second_part[thread] = 5000 + thread;
  __syncthreads();
  if (thread < 4) output[thread] = small[thread];
  if (thread < 8) output[4 + thread] = scratch.counts[thread];
  if (thread < 3) output[12 + thread] = static_cast<int>(wide[thread]);
  if (thread < 16) output[15 + thread] = dynamic[thread];
}

TEST_CASE("static and dynamic shared memory are apart from each other", "[shared]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> output = zeros_on_device<int>(31);
  cuda::launch<use_all_kinds>({stream, 1, 32, 16 * sizeof(int)}, output.data());
  const std::vector<int> seen = read_back(output);
  for (int i = 0; i < 4; ++i) CHECK(seen[static_cast<std::size_t>(i)] == 1000 + i);
  for (int i = 0; i < 8; ++i) CHECK(seen[static_cast<std::size_t>(4 + i)] == 2000 + i);
  for (int i = 0; i < 3; ++i) CHECK(seen[static_cast<std::size_t>(12 + i)] == 3000 + i);
  for (int i = 0; i < 10; ++i) CHECK(seen[static_cast<std::size_t>(15 + i)] == 4000 + i);
  for (int i = 0; i < 6; ++i) CHECK(seen[static_cast<std::size_t>(25 + i)] == 5000 + i);
}

// A histogram of a block in shared memory; blocks run at the same time, each with its own copy.
__global__ void histogram(const unsigned char* values, unsigned count, unsigned* bins) {
  __shared__ unsigned mine[16];
  if (threadIdx.x < 16) mine[threadIdx.x] = 0;
  __syncthreads();
  for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += gridDim.x * blockDim.x) {
    atomicAdd(&mine[values[i]], 1U);
  }
  __syncthreads();
  if (threadIdx.x < 16) atomicAdd(&bins[threadIdx.x], mine[threadIdx.x]);
}

TEST_CASE("each block has shared memory of its own", "[shared]") {
  const cuda::Stream first, second;
  constexpr unsigned count = 10000;
  std::vector<unsigned char> values(count);
  std::vector<unsigned> expected(16);
  for (unsigned i = 0; i < count; ++i) {
    values[i] = static_cast<unsigned char>(i * i / 7 % 16);
    ++expected[values[i]];
  }
  const cuda::DeviceBuffer<unsigned char> input = on_device(values);
  const cuda::DeviceBuffer<unsigned> bins = zeros_on_device<unsigned>(16);
  const cuda::DeviceBuffer<unsigned> other_bins = zeros_on_device<unsigned>(16);
  cuda::launch<histogram>({first, 7, 96}, input.data(), count, bins.data());
  cuda::launch<histogram>({second, 5, 64}, input.data(), count, other_bins.data());
  CHECK(read_back(bins) == expected);
  CHECK(read_back(other_bins) == expected);
}

// The index is known only at run time, so the array is memory and not registers.
__global__ void count_digits(const unsigned* numbers, unsigned* most_frequent) {
  unsigned counts[10] = {};
  for (unsigned rest = numbers[threadIdx.x]; rest > 0; rest /= 10) ++counts[rest % 10];
  __syncthreads();
  unsigned best = 0;
  for (unsigned digit = 1; digit < 10; ++digit) {
    if (counts[digit] > counts[best]) best = digit;
  }
  most_frequent[blockIdx.x * blockDim.x + threadIdx.x] = best;
}

TEST_CASE("a thread's local array is its own, also across a barrier", "[shared]") {
  const cuda::Stream stream;
  const std::vector<unsigned> numbers = {7, 1223, 99119, 50055, 12344321, 808, 0, 6663};
  const std::vector<unsigned> best = {7, 2, 9, 5, 1, 8, 0, 6};
  const cuda::DeviceBuffer<unsigned> input = on_device(numbers);
  const cuda::DeviceBuffer<unsigned> output(3 * 8);
  cuda::launch<count_digits>({stream, 3, 8}, input.data(), output.data());
  std::vector<unsigned> expected;
  for (int block = 0; block < 3; ++block) expected.insert(expected.end(), best.begin(), best.end());
  CHECK(read_back(output) == expected);
}

__global__ void alignment(unsigned* remainder) {
  DDP_DYNAMIC_SHARED(double, tile);
  __shared__ double wide[2];
  __shared__ float4 vector;
  remainder[0] = static_cast<unsigned>(reinterpret_cast<std::size_t>(tile) % 16);
  remainder[1] = static_cast<unsigned>(reinterpret_cast<std::size_t>(wide) % alignof(double));
  remainder[2] = static_cast<unsigned>(reinterpret_cast<std::size_t>(&vector) % 16);
}

TEST_CASE("shared memory is aligned for its type", "[shared]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned> remainder(3);
  cuda::launch<alignment>({stream, 1, 1, 64}, remainder.data());
  CHECK(read_back(remainder) == std::vector<unsigned>{0, 0, 0});
}

}  // namespace
}  // namespace ddp::conformance
