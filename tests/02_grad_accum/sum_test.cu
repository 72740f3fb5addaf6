// The addition of micro-batch gradients: element by element, and in a fixed tree.

#include <limits>
#include <random>
#include <vector>

#include "02_grad_accum/pairwise_sum.cuh"
#include "tests/01_single_gpu/device_values.hpp"

namespace ddp {
namespace {

template <class T>
using Arrays = std::vector<std::vector<T>>;

// The definition, not the counter: the sum of the left half plus that of the right half.
template <class T>
T tree_sum(const Arrays<T>& arrays, std::size_t element, std::size_t first, std::size_t count) {
  if (count == 1) return arrays[first][element];
  return tree_sum(arrays, element, first, count / 2) +
         tree_sum(arrays, element, first + count / 2, count / 2);
}

template <class T>
T running_sum(const Arrays<T>& arrays, std::size_t element) {
  T sum = arrays.front()[element];
  for (std::size_t i = 1; i < arrays.size(); ++i) sum += arrays[i][element];
  return sum;
}

// Magnitudes so far apart that nearly every order of addition gives other bits.
template <class T>
Arrays<T> arrays_of(std::size_t count, std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Arrays<T> arrays(count, std::vector<T>(size));
  for (auto& array : arrays) {
    for (T& value : array) {
      const int power = static_cast<int>(random() % 24);
      const T sign = random() % 2 == 0 ? T(1) : T(-1);
      value = sign * static_cast<T>(random() % 1000 + 1) * std::ldexp(T(1) / T(3), power);
    }
  }
  return arrays;
}

// What is in the last array after all have been pushed.
template <class T>
std::vector<T> pushed(PairwiseSum<T>& sum, const Arrays<T>& arrays, const cuda::Stream& stream) {
  std::vector<T> last;
  for (const auto& array : arrays) {
    const DeviceValues<T> values(array);
    sum.push(values.span(), stream);
    last = values.read(stream);
  }
  return last;
}

}  // namespace

TEMPLATE_TEST_CASE("arrays are added element by element, and nothing beside them", "", float,
                   double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const std::size_t size : {0U, 1U, 255U, 257U, 4095U, 4096U, 4097U, 10000U}) {
    INFO("size " << size);
    std::vector<T> a(size), b(size), expected(size);
    for (std::size_t i = 0; i < size; ++i) {
      a[i] = static_cast<T>(i);
      b[i] = static_cast<T>(100000 + 3 * i);
      expected[i] = static_cast<T>(100000 + 4 * i);
    }
    const DeviceValues<T> left(a), right(b), sum(size, T(-1));
    add(left.data(), right.data(), sum.span(), stream);
    CHECK(sum.read(stream) == expected);
    CHECK(left.read(stream) == a);
    add(left.data(), right.data(), right.span(), stream);  // in place of the second
    CHECK(right.read(stream) == expected);
  }
}

TEST_CASE("four numbers show the tree: 1e8, 1, -1e8, 1 are 0, one after another they are 1") {
  // fp32 has steps of 8 at 1e8: 1e8 + 1 is 1e8, and -1e8 + 1 is -1e8.
  const cuda::Stream stream;
  PairwiseSum<float> sum(4, 1);
  const Arrays<float> arrays = {{1e8F}, {1.0F}, {-1e8F}, {1.0F}};
  CHECK(running_sum(arrays, 0) == 1.0F);
  CHECK(pushed(sum, arrays, stream) == std::vector<float>{0.0F});
}

TEMPLATE_TEST_CASE("1, 2, 4, 8 and 16 arrays are added in the balanced tree, to the bit", "", float,
                   double) {
  using T = TestType;
  const cuda::Stream stream;
  constexpr std::size_t size = 300;
  for (const std::size_t count : {1U, 2U, 4U, 8U, 16U}) {
    PairwiseSum<T> sum(count, size);
    for (const unsigned round : {1U, 2U, 3U}) {  // each begins anew
      INFO(count << " arrays, round " << round);
      const Arrays<T> arrays = arrays_of<T>(count, size, 10 * round);
      std::vector<T> expected, one_by_one;
      for (std::size_t i = 0; i < size; ++i) {
        expected.push_back(tree_sum(arrays, i, 0, count));
        one_by_one.push_back(running_sum(arrays, i));
      }
      CHECK(pushed(sum, arrays, stream) == expected);
      CHECK((one_by_one == expected) == (count <= 2));  // else the test would show nothing
    }
  }
}

TEST_CASE("the arrays may lie in one buffer, which is written again between them") {
  const cuda::Stream stream;
  constexpr std::size_t count = 8, size = 33;
  const Arrays<float> arrays = arrays_of<float>(count, size, 3);
  const DeviceValues<float> values(size, std::numeric_limits<float>::quiet_NaN());
  PairwiseSum<float> sum(count, size);
  for (const auto& array : arrays) {
    cuda::upload(values.data(), std::span<const float>(array), stream);
    sum.push(values.span(), stream);
  }
  std::vector<float> expected;
  for (std::size_t i = 0; i < size; ++i) expected.push_back(tree_sum(arrays, i, 0, count));
  CHECK(values.read(stream) == expected);
}

TEST_CASE("it takes log2 of the number of arrays as buffers") {
  for (const auto& [count, buffers] :
       {std::pair<std::size_t, std::size_t>{1, 0}, {2, 1}, {8, 3}, {64, 6}}) {
    const std::size_t before = cuda::device_bytes();
    const PairwiseSum<float> sum(count, 1000);
    CHECK(cuda::device_bytes() - before == buffers * 4000);
  }
}

}  // namespace ddp
