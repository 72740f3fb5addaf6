// What every all-reduce of the course has to do, on any number of ranks. Data depends on rank and
// index and sums exactly, and every element is compared.

#include "03_naive_allreduce/all_reduce.hpp"

#include <cmath>
#include <stdexcept>
#include <vector>

#include "common/errors.hpp"
#include "tests/04_ring_allreduce/collective.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/variant.hpp"

namespace ddp {
namespace {

/// Pattern P: 100 * rank + i.
template <class T>
std::vector<T> pattern(int rank, std::size_t count) {
  return made_by<T>(count, [&](std::size_t i) { return 100 * static_cast<std::size_t>(rank) + i; });
}

/// Its sum over the ranks: 100 * (0 + 1 + ... + N-1) + N * i.
template <class T>
std::vector<T> pattern_sum(int ranks, std::size_t count) {
  const auto n = static_cast<std::size_t>(ranks);
  return made_by<T>(count, [&](std::size_t i) { return 100 * (n * (n - 1) / 2) + n * i; });
}

/// Checks `expected` for each way, in place and out of place.
template <class T>
void check_sum(const mpi::Communicator& communicator, const std::vector<T>& values,
               const std::vector<T>& expected, std::size_t offset = 64) {
  for (const Way& way : ways(communicator)) {
    for (const bool in_place : {true, false}) {
      INFO(way.text() << (in_place ? ", in place" : ", out of place") << ", " << values.size()
                      << " elements of " << sizeof(T) << " bytes");
      const auto all_reduce = make_all_reduce<T>(way.kind, communicator, way.device_pointers);
      CHECK(difference(sum_of(*all_reduce, values, in_place, offset), expected) == "");
    }
  }
}

TEST_CASE("AR-01 (a): a count that the ranks do not divide", "[not-tsan]") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  if (ranks == 3) {
    CHECK(pattern_sum<float>(3, 10) ==
          std::vector<float>{300, 303, 306, 309, 312, 315, 318, 321, 324, 327});
  }
  std::vector<std::size_t> counts = {10, 11, 13, 997};
  for (const std::size_t count : variant_counts(2000, 2)) counts.push_back(count);
  for (const std::size_t count : counts) {
    check_sum(communicator, pattern<float>(rank, count), pattern_sum<float>(ranks, count));
    check_sum(communicator, pattern<double>(rank, count), pattern_sum<double>(ranks, count));
  }
}

TEST_CASE("AR-01 (b): fewer elements than ranks", "[not-tsan]") {
  const mpi::Communicator communicator;
  const auto rank = static_cast<std::size_t>(communicator.rank());
  const auto ranks = static_cast<std::size_t>(communicator.size());
  for (const std::size_t count : {3, 2, 1}) {
    const auto values = made_by<float>(count, [&](std::size_t i) { return rank + 1 + 10 * i; });
    const auto expected = made_by<float>(
        count, [&](std::size_t i) { return ranks * (ranks + 1) / 2 + 10 * i * ranks; });
    if (ranks == 4) CHECK(expected[0] == 10);
    if (ranks == 4 && count == 3) CHECK(expected == std::vector<float>{10, 50, 90});
    check_sum(communicator, values, expected);
  }
}

TEST_CASE("AR-01 (c): buffers that begin one element past a boundary, between guards",
          "[not-tsan]") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const std::size_t count = 1021;
  const std::vector<float> ones(count, 1);
  check_sum(communicator, ones, std::vector<float>(count, static_cast<float>(ranks)), 65);
  check_sum(communicator, pattern<float>(rank, count), pattern_sum<float>(ranks, count), 65);
  check_sum(communicator, pattern<double>(rank, count), pattern_sum<double>(ranks, count), 33);
}

TEST_CASE("AR-03: in place and out of place mean the same, and the input stays") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  check_sum(communicator, pattern<float>(rank, 7), pattern_sum<float>(ranks, 7));
  if (ranks == 3) {
    CHECK(pattern_sum<float>(3, 7) == std::vector<float>{300, 303, 306, 309, 312, 315, 318});
  }
}

TEST_CASE("AR-03: spans that overlap in part or differ in size are refused") {
  const mpi::Communicator communicator;
  const cuda::Stream stream;
  const Guarded<float> memory(std::vector<float>(20, 1.0F));
  const std::span<float> all = memory.span();
  for (const Way& way : ways(communicator)) {
    INFO(way.text());
    const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    const auto refusal = [&](std::span<const float> input, std::span<float> output) {
      return error_of<std::invalid_argument>([&] { all_reduce->sum(input, output, stream); });
    };
    CHECK(refusal(all.subspan(1, 10), all.first(10)) ==
          "all-reduce: input and output overlap in part; 10 elements must be the same memory or "
          "apart");
    CHECK(refusal(all.first(10), all.subspan(9, 10)).find("overlap in part") != std::string::npos);
    CHECK(refusal(all.first(10), all.first(9)) ==
          "all-reduce: the input has 10 elements, the output 9");
    CHECK(refusal(all.first(10), all.subspan(10)) == "(nothing was thrown)");  // neighbours
  }
}

TEST_CASE("a count of zero communicates nothing") {
  const mpi::Communicator communicator;
  const cuda::Stream stream;
  for (const Way& way : ways(communicator)) {
    INFO(way.text());
    const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    all_reduce->sum(std::span<float>(), stream);
  }
  CHECK(communicator.traffic().messages_sent == 0);
  CHECK(communicator.traffic().messages_received == 0);
}

TEST_CASE("AR-04: no message is so large that the ring hangs", "[not-tsan]") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const std::size_t chunk : {60, 70, 1010, 1012, 16384, 1048576}) {
    const std::size_t count = chunk * static_cast<std::size_t>(ranks);
    // Exact up to 2^24, so the pattern is cut off there.
    const auto values = made_by<float>(
        count, [&](std::size_t i) { return 100 * static_cast<std::size_t>(rank) + i % 4194301; });
    const auto n = static_cast<std::size_t>(ranks);
    const auto expected = made_by<float>(
        count, [&](std::size_t i) { return 100 * (n * (n - 1) / 2) + n * (i % 4194301); });
    for (const Way& way : ways(communicator)) {
      INFO(way.text() << ", chunks of " << chunk);
      const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
      CHECK(difference(sum_of(*all_reduce, values, true), expected) == "");
    }
  }
}

TEST_CASE("IN-01 (b): all ranks get the same bits, whatever the order of addition gives") {
  const mpi::Communicator communicator;
  const std::vector<float> terms = {1e8F, 1.0F, -1e8F, 0.0F};
  const auto mine = terms.at(static_cast<std::size_t>(communicator.rank()));
  for (const Way& way : ways(communicator)) {
    INFO(way.text());
    const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    const auto result = sum_of(*all_reduce, std::vector<float>(9, mine), true);
    const std::string bytes(reinterpret_cast<const char*>(result.data()), 9 * sizeof(float));
    for (const std::string& other : communicator.all_gather(bytes)) CHECK(other == bytes);
    if (communicator.size() < 3) continue;
    for (const float value : result) CHECK((value == 0 || value == 1));
  }
}

TEST_CASE("DD-01: the gradients 2, 4, 6 and 8 sum to 20; nobody divides") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const auto expected = static_cast<float>(ranks * (ranks + 1));
  if (ranks == 4) CHECK(expected == 20);
  check_sum(communicator, std::vector<float>{static_cast<float>(2 * (rank + 1))},
            std::vector<float>{expected});
}

TEST_CASE("the sum comes after earlier and before later work of its stream") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const std::size_t count = 5003;
  const auto values = pattern<float>(rank, count);
  for (const Way& way : ways(communicator)) {
    INFO(way.text());
    const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    const cuda::Stream stream, other;
    const cuda::PinnedBuffer<float> before(count), after(count);
    for (std::size_t i = 0; i < count; ++i) before[i] = values[i];
    const cuda::DeviceBuffer<float> input(count), output(count);
    // Nothing waits in between, and the second call reuses what the first one may still use.
    cuda::copy_async(input.data(), static_cast<const float*>(before.data()), count, stream);
    all_reduce->sum({input.data(), count}, {output.data(), count}, stream);
    cuda::copy_async(after.data(), static_cast<const float*>(output.data()), count, stream);
    const Guarded<float> second(values);
    all_reduce->sum(second.span(), other);
    stream.synchronize();
    other.synchronize();
    const auto first = made_by<float>(count, [&](std::size_t i) { return after[i]; });
    CHECK(difference(first, pattern_sum<float>(ranks, count)) == "");
    CHECK(difference(second.values(), pattern_sum<float>(ranks, count)) == "");
  }
}

TEST_CASE("segments of a large buffer, in a group of five and one of four", "[not-tsan]") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const auto n = static_cast<std::size_t>(ranks);
  const std::size_t count = 1179001 * n + n / 2;  // 8.99 x 512 KiB a chunk; not all are equal
  const auto values = made_by<float>(
      count, [&](std::size_t i) { return 100 * static_cast<std::size_t>(rank) + i % 1000003; });
  const auto expected = made_by<float>(
      count, [&](std::size_t i) { return 100 * (n * (n - 1) / 2) + n * (i % 1000003); });
  for (const Way& way : ways(communicator)) {
    if (way.kind != AllReduceKind::ring_segmented) continue;
    const auto all_reduce = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    for (const bool in_place : {true, false}) {
      INFO(way.text() << (in_place ? ", in place" : ", out of place"));
      CHECK(difference(sum_of(*all_reduce, values, in_place), expected) == "");
    }
  }
}

TEST_CASE("one object sums buffers of any size, one after another", "[not-tsan]") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  for (const Way& way : ways(communicator)) {
    const auto all_reduce = make_all_reduce<double>(way.kind, communicator, way.device_pointers);
    for (const std::size_t count : {5, 100000, 1, 333, 250001}) {
      INFO(way.text() << ", " << count << " elements");
      CHECK(difference(sum_of(*all_reduce, pattern<double>(rank, count), count % 2 == 0),
                       pattern_sum<double>(ranks, count)) == "");
    }
  }
}

TEST_CASE("the tree refuses a number of ranks that is no power of two") {
  const mpi::Communicator communicator;
  const auto refusal = error_of<OptionError>(
      [&] { make_all_reduce<float>(AllReduceKind::tree, communicator, false); });
  if (communicator.size() == 3) {
    CHECK(refusal.find("--allreduce tree needs 1, 2, 4, 8, ... ranks, not 3:") == 0);
  } else {
    CHECK(refusal == "(nothing was thrown)");
  }
}

}  // namespace
}  // namespace ddp
