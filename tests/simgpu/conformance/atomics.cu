// Atomic operations between the threads of all blocks. Sums are of integers, also in floating
// point, so that every order of addition gives the same result.
#include <algorithm>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr unsigned blocks = 23, block_size = 96, threads = blocks * block_size;

__device__ unsigned global_index() { return blockIdx.x * blockDim.x + threadIdx.x; }

template <class T>
__global__ void add_all(T* sum, T* olds) {
  const unsigned index = global_index();
  olds[index] = atomicAdd(sum, static_cast<T>(1));
}

template <class T>
void check_add() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<T> sum = on_device<T>({static_cast<T>(5)});
  const cuda::DeviceBuffer<T> olds(threads);
  cuda::launch<add_all<T>>({stream, blocks, block_size}, sum.data(), olds.data());
  CHECK(read_back(sum).front() == static_cast<T>(5 + threads));
  // Each thread gets the value before its own addition: all values, each once.
  std::vector<T> seen = read_back(olds);
  std::sort(seen.begin(), seen.end());
  std::size_t wrong = 0;
  for (unsigned i = 0; i < threads; ++i) {
    if (seen[i] != static_cast<T>(5 + i)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("atomicAdd adds every thread's term once and returns the value before", "[atomics]") {
  check_add<int>();
  check_add<unsigned>();
  check_add<unsigned long long>();
  check_add<float>();
  check_add<double>();
}

__global__ void add_fractions(float* sum, double* wide_sum) {
  atomicAdd(sum, 0.25F);
  atomicAdd(wide_sum, 0.0009765625);  // 2^-10
}

TEST_CASE("floating-point atomicAdd of fractions that add exactly", "[atomics]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> sum = zeros_on_device<float>(1);
  const cuda::DeviceBuffer<double> wide_sum = zeros_on_device<double>(1);
  cuda::launch<add_fractions>({stream, blocks, block_size}, sum.data(), wide_sum.data());
  CHECK(read_back(sum).front() == 0.25F * threads);
  CHECK(read_back(wide_sum).front() == 0.0009765625 * threads);
}

struct Integers {
  int difference, least, greatest, exchanged, conjunction, disjunction;
};

__global__ void combine(Integers* all) {
  const int index = static_cast<int>(global_index());
  atomicSub(&all->difference, index);
  atomicMin(&all->least, (index * 37) % 1001 - 500);
  atomicMax(&all->greatest, (index * 37) % 1001 - 500);
  atomicAnd(&all->conjunction, ~(1 << (index % 7)));
  atomicOr(&all->disjunction, 1 << (index % 5));
  atomicExch(&all->exchanged, index);
}

TEST_CASE("atomicSub, Min, Max, And, Or and Exch on int", "[atomics]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<Integers> buffer =
      on_device<Integers>({{7, 100000, -100000, -1, -1, 64}});
  cuda::launch<combine>({stream, blocks, block_size}, buffer.data());
  const Integers seen = read_back(buffer).front();
  CHECK(seen.difference == 7 - static_cast<int>(threads * (threads - 1) / 2));
  CHECK(seen.least == -500);
  CHECK(seen.greatest == 500);
  CHECK(seen.conjunction == ~127);
  CHECK(seen.disjunction == 64 + 31);
  CHECK(seen.exchanged >= 0);
  CHECK(seen.exchanged < static_cast<int>(threads));
}

template <class T>
__global__ void combine_unsigned(T* least, T* greatest, T* conjunction, T* disjunction) {
  const unsigned index = global_index();
  const T high = static_cast<T>(1) << (8 * sizeof(T) - 1);  // negative if taken for signed
  atomicMin(least, high + index);
  atomicMax(greatest, high + index);
  atomicAnd(conjunction, static_cast<T>(~(static_cast<T>(1) << (index % (8 * sizeof(T))))));
  atomicOr(disjunction, static_cast<T>(1) << (index % (8 * sizeof(T))));
}

template <class T>
void check_unsigned() {
  const cuda::Stream stream;
  const T all_bits = static_cast<T>(~static_cast<T>(0));
  const T high = static_cast<T>(1) << (8 * sizeof(T) - 1);
  const cuda::DeviceBuffer<T> buffer = on_device<T>({all_bits, 1, all_bits, 0});
  T* const data = buffer.data();
  cuda::launch<combine_unsigned<T>>({stream, blocks, block_size}, data, data + 1, data + 2,
                                    data + 3);
  CHECK(read_back(buffer) == std::vector<T>{high, high + threads - 1, 0, all_bits});
}

TEST_CASE("atomicMin, Max, And and Or compare unsigned numbers as unsigned", "[atomics]") {
  check_unsigned<unsigned>();
  check_unsigned<unsigned long long>();
}

// Hands a token around: what is put in by one thread is taken out by exactly one other.
template <class T>
__global__ void exchange(T* token, T* taken) {
  const unsigned index = global_index();
  taken[index] = atomicExch(token, static_cast<T>(index + 1));
}

template <class T>
void check_exchange() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<T> token = zeros_on_device<T>(1);
  const cuda::DeviceBuffer<T> taken(threads);
  cuda::launch<exchange<T>>({stream, blocks, block_size}, token.data(), taken.data());
  std::vector<T> seen = read_back(taken);
  seen.push_back(read_back(token).front());
  std::sort(seen.begin(), seen.end());
  std::size_t wrong = 0;
  for (unsigned i = 0; i <= threads; ++i) {
    if (seen[i] != static_cast<T>(i)) ++wrong;
  }
  CHECK(wrong == 0);
}

TEST_CASE("atomicExch loses nothing and doubles nothing", "[atomics]") {
  check_exchange<int>();
  check_exchange<unsigned>();
  check_exchange<unsigned long long>();
  check_exchange<float>();
}

// atomicAdd built from atomicCAS, as one must for an operation that CUDA does not have.
template <class T>
__global__ void add_by_compare_and_swap(T* sum) {
  T seen = 0;  // a first guess; a wrong one is put right below
  for (;;) {
    const T before = atomicCAS(sum, seen, seen + 3);
    if (before == seen) return;
    seen = before;
  }
}

template <class T>
void check_compare_and_swap() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<T> sum = zeros_on_device<T>(1);
  cuda::launch<add_by_compare_and_swap<T>>({stream, blocks, block_size}, sum.data());
  CHECK(read_back(sum).front() == static_cast<T>(3 * threads));
}

TEST_CASE("atomicCAS swaps only where the value is the expected one", "[atomics]") {
  check_compare_and_swap<int>();
  check_compare_and_swap<unsigned>();
  check_compare_and_swap<unsigned long long>();
}

// Each block writes its part; whoever comes last, in whatever order, adds all parts.
__global__ void sum_by_last_block(const int* values, int* parts, unsigned* arrived, int* sum) {
  __shared__ bool last;
  if (threadIdx.x == 0) {
    int part = 0;
    for (unsigned i = 0; i < block_size; ++i) part += values[blockIdx.x * block_size + i];
    atomicExch(&parts[blockIdx.x], part);
    __threadfence();
    last = atomicAdd(arrived, 1U) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last || threadIdx.x != 0) return;
  __threadfence();
  int total = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) total += atomicAdd(&parts[block], 0);
  *sum = total;
}

TEST_CASE("the last block to arrive sees the parts of all others", "[atomics]") {
  const cuda::Stream stream;
  std::vector<int> values(threads);
  int expected = 0;
  for (unsigned i = 0; i < threads; ++i) {
    values[i] = static_cast<int>(i % 101);
    expected += values[i];
  }
  const cuda::DeviceBuffer<int> input = on_device(values);
  const cuda::DeviceBuffer<int> parts = zeros_on_device<int>(blocks);
  const cuda::DeviceBuffer<unsigned> arrived = zeros_on_device<unsigned>(1);
  const cuda::DeviceBuffer<int> sum = zeros_on_device<int>(1);
  cuda::launch<sum_by_last_block>({stream, blocks, block_size}, input.data(), parts.data(),
                                  arrived.data(), sum.data());
  CHECK(read_back(sum).front() == expected);
}

TEST_CASE("kernels in two streams may add to one counter", "[atomics]") {
  const cuda::Stream first, second;
  const cuda::DeviceBuffer<int> sum = zeros_on_device<int>(1);
  const cuda::DeviceBuffer<int> olds(threads), other_olds(threads);
  for (int repeat = 0; repeat < 10; ++repeat) {
    cuda::launch<add_all<int>>({first, blocks, block_size}, sum.data(), olds.data());
    cuda::launch<add_all<int>>({second, blocks, block_size}, sum.data(), other_olds.data());
  }
  CHECK(read_back(sum).front() == 20 * static_cast<int>(threads));
}

}  // namespace
}  // namespace ddp::conformance
