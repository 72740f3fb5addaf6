// The bits that an all-reduce of simulated NCCL makes, and where it writes them. Ranks are
// processes.
#include <nccl.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/simulator/nccl_processes.hpp"
#include "tests/support/catch.hpp"

namespace ddp::simulator {
namespace {

/// What all-reduce makes of these values, one vector a rank, on this rank.
template <class T>
std::vector<T> reduced(int rank, const ncclUniqueId& id, const std::vector<std::vector<T>>& values,
                       ncclDataType_t type, ncclRedOp_t op) {
  const std::vector<T>& own = values[static_cast<std::size_t>(rank)];
  const ncclComm_t comm = join(static_cast<int>(values.size()), id, rank);
  const cuda::Stream stream;
  const cuda::DeviceBuffer<T> data(own.size());
  cuda::check(cudaMemcpy(data.data(), own.data(), own.size() * sizeof(T), cudaMemcpyHostToDevice));
  require_success(ncclAllReduce(data.data(), data.data(), own.size(), type, op, comm, stream));
  stream.synchronize();
  std::vector<T> result(own.size());
  cuda::check(
      cudaMemcpy(result.data(), data.data(), own.size() * sizeof(T), cudaMemcpyDeviceToHost));
  require_success(ncclCommDestroy(comm));
  return result;
}

/// A number of 32 bits for each pair, well mixed.
std::uint32_t mixed(std::uint32_t rank, std::uint32_t i) {
  std::uint32_t x = (rank + 1) * 2654435761u ^ i * 2246822519u;
  for (const std::uint32_t factor : {3266489917u, 668265263u}) x = (x ^ x >> 15) * factor;
  return x ^ x >> 14;
}

TEST_CASE("floats are added in the order of the ranks, to the bit", "[nccl]") {
  for (const std::size_t count : {std::size_t{501}, std::size_t{50001}}) {
    for (int ranks = 2; ranks <= 4; ++ranks) {
      std::vector<std::vector<float>> values(static_cast<std::size_t>(ranks));
      for (std::uint32_t rank = 0; rank < values.size(); ++rank) {
        for (std::uint32_t i = 0; i < count; ++i) {
          const std::uint32_t random = mixed(rank, i);  // magnitudes from 2^-8 to 2^7
          const float fraction = static_cast<float>(random >> 8) / 16777216.0f - 0.5f;
          values[rank].push_back(std::ldexp(fraction, static_cast<int>(random % 16) - 8));
        }
      }
      const Job job = run_job(ranks, silent, [&](int rank, const ncclUniqueId& id) {
        const auto sums = reduced(rank, id, values, ncclFloat32, ncclSum);
        std::size_t other_order_differs = 0;
        for (std::size_t i = 0; i < count; ++i) {
          float forward = values.front()[i], backward = values.back()[i];
          for (std::size_t r = 1; r < values.size(); ++r) {
            forward += values[r][i];
            backward += values[values.size() - 1 - r][i];
          }
          other_order_differs += forward != backward;
          require(sums[i] == forward, "the sum in rank order at " + std::to_string(i));
        }
        require(ranks == 2 || other_order_differs > count / 10, "values that tell orders apart");
      });
      INFO(job.output);
      CHECK(job.passed());
    }
  }
}

float float_of_bfloat16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

/// The nearest of all 65,536, found by looking at the two neighbours; ties to the even one.
std::uint16_t nearest_bfloat16(double value) {
  const auto low = static_cast<std::uint16_t>(
      std::bit_cast<std::uint32_t>(static_cast<float>(value)) >> 16);  // towards zero
  const auto high = static_cast<std::uint16_t>(low + 1);
  const double to_low = std::abs(value - double{float_of_bfloat16(low)});
  const double to_high = std::abs(value - double{float_of_bfloat16(high)});
  if (to_low != to_high) return to_low < to_high ? low : high;
  return low % 2 == 0 ? low : high;
}

TEST_CASE("halves are rounded after each addition, all 65,536 of them", "[nccl]") {
  std::vector<std::vector<std::uint16_t>> values(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t i = 0; i < 65536; ++i) {
      values[rank].push_back(static_cast<std::uint16_t>(rank == 0 ? i : mixed(rank, i)));
    }
  }
  const Job job = run_job(3, silent, [&](int rank, const ncclUniqueId& id) {
    const auto sums = reduced(rank, id, values, ncclFloat16, ncclSum);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      _Float16 sum = std::bit_cast<_Float16>(values[0][i]);  // the compiler's own arithmetic
      sum = sum + std::bit_cast<_Float16>(values[1][i]);
      sum = sum + std::bit_cast<_Float16>(values[2][i]);
      const auto found = std::bit_cast<_Float16>(sums[i]);
      require(std::bit_cast<std::uint16_t>(sum) == sums[i] || (sum != sum && found != found),
              "the half at " + std::to_string(i));
    }
  });
  INFO(job.output);
  CHECK(job.passed());
}

TEST_CASE("bfloat16 is rounded after each addition", "[nccl]") {
  std::vector<std::vector<std::uint16_t>> values(3);
  for (std::uint32_t rank = 0; rank < 3; ++rank) {
    for (std::uint32_t i = 0; i < 20000; ++i) {
      const std::uint32_t random = mixed(rank, i);  // positive, from 2^-7 to 2^9
      values[rank].push_back(static_cast<std::uint16_t>(0x3c00 + random % 0x0800));
    }
  }
  const Job job = run_job(3, silent, [&](int rank, const ncclUniqueId& id) {
    const auto sums = reduced(rank, id, values, ncclBfloat16, ncclSum);
    for (std::size_t i = 0; i < sums.size(); ++i) {
      std::uint16_t sum = values[0][i];
      for (const std::size_t r : {1u, 2u}) {
        sum = nearest_bfloat16(double{float_of_bfloat16(sum)} +
                               double{float_of_bfloat16(values[r][i])});
      }
      require(sum == sums[i], "the bfloat16 at " + std::to_string(i));
    }
  });
  INFO(job.output);
  CHECK(job.passed());
}

TEST_CASE("the mean scales floats before the sum and divides integers after it", "[nccl]") {
  // 1/3 is 171/512 in bfloat16, 7 times that is rounded to 150/64, and three of them are 7.03125.
  const auto seven = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(7.0f) >> 16);
  const auto mean = static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(7.03125f) >> 16);
  const Job floats = run_job(3, silent, [&](int rank, const ncclUniqueId& id) {
    const std::vector<std::vector<std::uint16_t>> values(3, std::vector<std::uint16_t>(9, seven));
    const auto found = reduced(rank, id, values, ncclBfloat16, ncclAvg);
    require(found == std::vector<std::uint16_t>(9, mean), "7.03125");
  });
  INFO(floats.output);
  CHECK(floats.passed());
  const Job integers = run_job(3, silent, [](int rank, const ncclUniqueId& id) {
    const auto found =
        reduced<std::int32_t>(rank, id, {{-1, 5}, {-2, 5}, {-5, 7}}, ncclInt32, ncclAvg);
    require(found == std::vector<std::int32_t>{-2, 5}, "-8/3 and 17/3, towards zero");
  });
  INFO(integers.output);
  CHECK(integers.passed());
}

/// Integers, of which sums are exact: of rank, place and call.
float term(int rank, std::size_t i, int call) {
  return static_cast<float>(100000 * rank + static_cast<int>(i % 9973) + 31 * call);
}
float sum_of_terms(int ranks, std::size_t i, int call) {
  float sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += term(rank, i, call);
  return sum;
}

TEST_CASE("large all-reduces: in place or not, in any memory, guards untouched", "[nccl]") {
  constexpr std::size_t count = 300007, most = 320000, guard = 5;  // more than 1 MiB
  for (const int ranks : {2, 3, 4}) {
    const Job job = run_job(ranks, silent, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = join(ranks, id, rank);
      const cuda::Stream stream;
      // Ranks may have allocated more or less before, and allocate again after each call. Small
      // memory is none that others can map, so that in the end the last rank keeps them from it.
      std::vector<cuda::DeviceBuffer<float>> others;
      for (int i = 0; i < rank; ++i) others.emplace_back(most);
      for (int call = 0; call < 6; ++call) {
        const bool in_place = call % 2 == 0;
        const bool small = call >= 4 && rank == ranks - 1;
        const std::size_t begin = guard + static_cast<std::size_t>(call + 3 * rank);
        const std::size_t n = call >= 4 ? 200000 : count;
        const std::size_t room = small ? n + begin + guard : most;
        const cuda::DeviceBuffer<float> from(room), to(room);
        std::vector<float> values(room, -1.0f);
        for (std::size_t i = 0; i < n; ++i) values[begin + i] = term(rank, i, call);
        cuda::upload<float>(from.data(), values, stream);
        cuda::upload<float>(to.data(), std::vector<float>(room, -2.0f), stream);
        float* const result = (in_place ? from : to).data();
        require_success(ncclAllReduce(from.data() + begin, result + begin, n, ncclFloat32, ncclSum,
                                      comm, stream));
        const std::vector<float> found = cuda::download(result, room, stream);
        for (std::size_t i = 0; i < room; ++i) {
          const bool inside = i >= begin && i < begin + n;
          const float expected = inside     ? sum_of_terms(ranks, i - begin, call)
                                 : in_place ? -1.0f
                                            : -2.0f;
          if (found[i] == expected) continue;
          require(false, "call " + std::to_string(call) + ": " + std::to_string(expected) + " at " +
                             std::to_string(i) + ", not " + std::to_string(found[i]));
        }
        if (!in_place) {
          require(cuda::download(from.data(), room, stream) == values, "the values as they were");
        }
      }
      for (int call = 0; call < 40; ++call) {  // more memory than a rank remembers of another
        const cuda::DeviceBuffer<float> from(most), to(most);
        cuda::clear_async(from.data(), most, stream);
        require_success(
            ncclAllReduce(from.data(), to.data(), most, ncclFloat32, ncclSum, comm, stream));
        require(cuda::download(to.data() + most - 1, 1, stream).front() == 0, "zeros");
      }
      require_success(ncclCommDestroy(comm));
    });
    INFO(job.output);
    CHECK(job.passed());
  }
}

}  // namespace
}  // namespace ddp::simulator
