// What NCCL on simulated GPUs promises beyond NCCL. Ranks are processes.
#include <nccl.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <set>
#include <thread>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "simgpu/include/simgpu/statistics.h"
#include "tests/simgpu/simulator/nccl_processes.hpp"
#include "tests/support/catch.hpp"

namespace ddp::simulator {
namespace {

using namespace std::chrono_literals;
const Environment diagnose{{"SIMGPU_NCCL", "diagnose"}, {"SIMGPU_LEAKS", "0"}};
const Environment silent{{"SIMGPU_NCCL", "silent"}, {"SIMGPU_LEAKS", "0"}};

ncclComm_t join(int ranks, const ncclUniqueId& id, int rank) {
  ncclComm_t comm = nullptr;
  require_success(ncclCommInitRank(&comm, ranks, id, rank));
  return comm;
}

ncclResult_t async_error(ncclComm_t comm) {
  ncclResult_t error = ncclInternalError;
  require_success(ncclCommGetAsyncError(comm, &error));
  return error;
}

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

/// Values on a device, and a stream, for a rank that fails.
struct Workplace {
  cuda::Stream stream;
  cuda::DeviceBuffer<float> values{1000};
  void all_reduce(ncclComm_t comm, std::size_t count) const {
    require_success(
        ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, stream));
  }
};

std::size_t times_in(const std::string& text, const std::string& part) {
  std::size_t times = 0;
  for (auto at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++times;
  return times;
}

TEST_CASE("diagnose: calls that do not match are shown from both sides", "[nccl]") {
  const Job job = run_job(2, diagnose, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const Workplace work;
    work.all_reduce(comm, 10);
    if (rank == 0) {
      work.all_reduce(comm, 1000);
    } else {
      float* const p = work.values.data();
      require_success(ncclBroadcast(p, p, 999, ncclFloat32, 1, comm, work.stream));
    }
    work.stream.synchronize();  // it goes on
    require(async_error(comm) == ncclInvalidUsage, "ncclInvalidUsage");
    float* const p = work.values.data();
    require(ncclAllReduce(p, p, 1, ncclFloat32, ncclSum, comm, work.stream) == ncclInvalidUsage,
            "a refusal of another call");
    require(ncclCommDestroy(comm) == ncclInvalidUsage, "only an abort");
    require_success(ncclCommAbort(comm));
  });
  INFO(job.output);
  CHECK(job.passed());
  CHECK(times_in(job.output, "in call 2 of the communicator") == 1);
  CHECK(times_in(job.output, "ncclAllReduce(count 1000, ncclFloat32, ncclSum)") == 1);
  CHECK(times_in(job.output, "ncclBroadcast(count 999, ncclFloat32, root 1)") == 1);
}

TEST_CASE("diagnose: a count, a type, a reduction, a root that differs", "[nccl]") {
  for (int difference = 0; difference < 4; ++difference) {
    const Job job = run_job(2, diagnose, [&](int rank, const ncclUniqueId& id) {
      const ncclComm_t comm = join(2, id, rank);
      const Workplace work;
      const auto differs = [&](int which) { return rank == 1 && which == difference; };
      float* const p = work.values.data();
      require_success(ncclReduce(p, p, differs(0) ? 8 : 9, differs(1) ? ncclInt32 : ncclFloat32,
                                 differs(2) ? ncclMax : ncclSum, differs(3) ? 1 : 0, comm,
                                 work.stream));
      work.stream.synchronize();
      require(async_error(comm) == ncclInvalidUsage, "ncclInvalidUsage");
      require_success(ncclCommAbort(comm));
    });
    INFO(difference << ": " << job.output);
    CHECK(job.passed());
    CHECK(times_in(job.output, "do not match") == 1);
  }
}

TEST_CASE("diagnose: a message of another count", "[nccl]") {
  const Job job = run_job(2, diagnose, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const Workplace work;
    float* const p = work.values.data();
    if (rank == 0) require_success(ncclSend(p, 5, ncclFloat32, 1, comm, work.stream));
    if (rank == 1) require_success(ncclRecv(p, 6, ncclFloat32, 0, comm, work.stream));
    work.stream.synchronize();
    require(async_error(comm) == (rank == 1 ? ncclInvalidUsage : ncclSuccess), "who sees it");
    require_success(ncclCommAbort(comm));
  });
  INFO(job.output);
  CHECK(job.passed());
  CHECK(times_in(job.output, "rank 0 called ncclSend(count 5") == 1);
  CHECK(times_in(job.output, "rank 1 called ncclRecv(count 6") == 1);
}

TEST_CASE("diagnose: a killed rank is named, and the stream goes on", "[nccl]") {
  const Job job = run_job(3, diagnose, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(3, id, rank);
    const Workplace work;
    work.all_reduce(comm, 10);
    work.stream.synchronize();
    if (rank == 1) raise(SIGKILL);
    work.all_reduce(comm, 20);
    work.stream.synchronize();
    require(async_error(comm) == ncclRemoteError, "ncclRemoteError");
    require_success(ncclCommAbort(comm));
  });
  INFO(job.output);
  CHECK(job.statuses == std::vector<int>{0, 128 + SIGKILL, 0});
  CHECK(times_in(job.output, "rank 1 has ended") == 2);  // each survivor says so
  CHECK(times_in(job.output, "waits for it in call 2, ncclAllReduce(count 20") == 2);
}

TEST_CASE("diagnose: a call that a rank never makes", "[nccl]") {
  const Job job = run_job(2, diagnose, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const Workplace work;
    if (rank == 0) {
      work.all_reduce(comm, 7);
      std::this_thread::sleep_for(3500ms);
      require(async_error(comm) == ncclSuccess, "patience");
    } else {
      std::this_thread::sleep_for(3600ms);
      work.all_reduce(comm, 7);  // after all
    }
    work.stream.synchronize();
    require_success(ncclCommDestroy(comm));
  });
  INFO(job.output);
  CHECK(job.passed());
  CHECK(times_in(job.output,
                 "rank 0 has waited for 3 s in call 1, ncclAllReduce(count 7, "
                 "ncclFloat32, ncclSum) for rank 1, which has made no collective "
                 "call yet") == 1);
}

std::set<std::string> shared_files() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator("/dev/shm")) {
    if (entry.path().string().find("nccl") != std::string::npos) names.insert(entry.path());
  }
  return names;
}

TEST_CASE("silent: who waits for a killed rank is told nothing until it aborts", "[nccl]") {
  const auto before = shared_files();
  const Job job = run_job(2, silent, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const Workplace work;
    work.all_reduce(comm, 10);
    work.stream.synchronize();
    if (rank == 1) raise(SIGKILL);
    work.all_reduce(comm, 20);
    std::this_thread::sleep_for(300ms);
    require(cudaStreamQuery(work.stream) == cudaErrorNotReady, "an operation that hangs");
    require(async_error(comm) == ncclSuccess, "silence");
    std::thread([comm] { require_success(ncclCommAbort(comm)); }).join();
    work.stream.synchronize();
  });
  INFO(job.output);
  CHECK(job.statuses == std::vector<int>{0, 128 + SIGKILL});
  CHECK(job.output.empty());
  CHECK(shared_files() == before);
}

TEST_CASE("silent: a longer call of one rank hangs, and a message gets mixed up", "[nccl]") {
  const Job job = run_job(2, silent, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const cuda::Stream stream;
    const cuda::DeviceBuffer<float> values(200000);
    float* const p = values.data();
    const std::size_t count = rank == 0 ? 200000 : 100;
    require_success(ncclAllReduce(p, p, count, ncclFloat32, ncclSum, comm, stream));
    std::this_thread::sleep_for(200ms);
    require((cudaStreamQuery(stream) == cudaErrorNotReady) == (rank == 0), "rank 0 hangs");
    require(async_error(comm) == ncclSuccess, "silence");
    require_success(ncclCommAbort(comm));
    stream.synchronize();
  });
  INFO(job.output);
  CHECK(job.passed());
  CHECK(job.output.empty());
}

TEST_CASE("a rank that comes twice, another number of ranks, an id that was used", "[nccl]") {
  const Job twice = run_job(3, silent, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    const auto result = ncclCommInitRank(&comm, 3, id, rank == 2 ? 1 : rank);
    require(result == ncclInvalidUsage, "ncclInvalidUsage");
    require(
        std::string(ncclGetLastError(nullptr)).find("rank 1 has come twice") != std::string::npos,
        "the reason");
  });
  INFO(twice.output);
  CHECK(twice.passed());
  const Job number = run_job(2, silent, [](int rank, const ncclUniqueId& id) {
    ncclComm_t comm = nullptr;
    require(ncclCommInitRank(&comm, 2 + rank, id, rank) == ncclInvalidUsage, "ncclInvalidUsage");
  });
  INFO(number.output);
  CHECK(number.passed());
  const Job used = run_job(1, silent, [](int, const ncclUniqueId& id) {
    const ncclComm_t first = join(1, id, 0);
    ncclComm_t second = nullptr;
    require(ncclCommInitRank(&second, 1, id, 0) == ncclSystemError, "ncclSystemError");
    require_success(ncclCommDestroy(first));
  });
  INFO(used.output);
  CHECK(used.passed());
}

TEST_CASE("buffers must lie in memory of the communicator's device", "[nccl]") {
  const Job job = run_job(1, silent, [](int, const ncclUniqueId& id) {
    const ncclComm_t comm = join(1, id, 0);
    const Workplace work;
    float* const p = work.values.data();
    const cuda::PinnedBuffer<float> pinned(8);
    std::vector<float> host(8);
    cuda::check(cudaSetDevice(1));
    const cuda::DeviceBuffer<float> foreign(8);
    const cuda::Stream foreign_stream;
    cuda::check(cudaSetDevice(0));
    const auto refused = [&](const float* send, float* recv, std::size_t count,
                             const std::string& why) {
      require(ncclAllReduce(send, recv, count, ncclFloat32, ncclSum, comm, work.stream) ==
                  ncclInvalidArgument,
              "a refusal: " + why);
      const std::string text = ncclGetLastError(comm);
      require(text.find(why) != std::string::npos, why + ", got " + text);
    };
    refused(nullptr, p, 4, "the send buffer (16 bytes) is a null pointer");
    refused(p, nullptr, 4, "the receive buffer (16 bytes) is a null pointer");
    refused(host.data(), p, 4, "is not in device memory");
    refused(p, pinned.data(), 4, "is not in device memory");
    refused(foreign.data(), p, 4, "is in memory of device 1");
    refused(p + 997, p, 4, "runs past the end");
    refused(p, p + 1, 4, "overlap");
    refused(reinterpret_cast<float*>(reinterpret_cast<char*>(p) + 2), p, 4, "is not aligned");
    require(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, comm, foreign_stream) ==
                ncclUnhandledCudaError,
            "a stream of the right device");
    require(
        ncclAllReduce(nullptr, nullptr, 0, ncclFloat32, ncclSum, comm, work.stream) == ncclSuccess,
        "success without values");
    require_success(ncclCommDestroy(comm));
    require(ncclCommDestroy(comm) == ncclInvalidArgument, "a destroyed one is known as such");
  });
  INFO(job.output);
  CHECK(job.passed());
}

TEST_CASE("SIMGPU_LINK: operations take at least the time of a ring, asleep", "[nccl]") {
  // 1 MB/s and 10 ms. 4000 bytes on 2 ranks: all-reduce 2 (10 + 2) ms, broadcast 10 + 4 ms,
  // all-gather of 4000 bytes a rank 10 + 4 ms, a message 10 + 4 ms; then all of them again.
  const Environment link{{"SIMGPU_LINK", "0.001,10000"}, {"SIMGPU_LEAKS", "0"}};
  const Job job = run_job(2, link, [](int rank, const ncclUniqueId& id) {
    const ncclComm_t comm = join(2, id, rank);
    const cuda::Stream stream;
    const cuda::DeviceBuffer<float> values(1000), rows(2000);
    float* const p = values.data();
    const auto milliseconds = [&](auto operation) {
      const auto begin = std::chrono::steady_clock::now();
      require_success(operation());
      stream.synchronize();
      return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
          .count();
    };
    const auto all_reduce = [&] {
      return ncclAllReduce(p, p, 1000, ncclFloat32, ncclSum, comm, stream);
    };
    const std::clock_t busy = std::clock();
    // The ranks start together only after the first one.
    require(milliseconds(all_reduce) >= 24, "24 ms for an all-reduce");
    require(milliseconds([&] {
              all_reduce();
              return all_reduce();
            }) >= 2 * 24 - 5,
            "twice the time for two");
    require(milliseconds([&] { return ncclBroadcast(p, p, 1000, ncclFloat32, 0, comm, stream); }) >=
                14 - 5,
            "14 ms for a broadcast");
    require(milliseconds([&] {
              return ncclAllGather(p, rows.data(), 1000, ncclFloat32, comm, stream);
            }) >= 14 - 5,
            "14 ms for an all-gather");
    require(milliseconds([&] {
              return rank == 0 ? ncclSend(p, 1000, ncclFloat32, 1, comm, stream)
                               : ncclRecv(p, 1000, ncclFloat32, 0, comm, stream);
            }) >= 14 - 5,
            "14 ms for a message");
    const double used = static_cast<double>(std::clock() - busy) / CLOCKS_PER_SEC;
    require(used < 0.06, "sleep, used " + std::to_string(used) + " s of the CPU");
    require_success(ncclCommDestroy(comm));
  });
  INFO(job.output);
  CHECK(job.passed());
}

TEST_CASE("SIMGPU_LINK: a value that makes no sense ends the program", "[nccl]") {
  for (const char* const bad : {"", "1", "0,1", "1,-1", "1,2,3", "nan,1", "1,2x"}) {
    const Job job =
        run_job(1, {{"SIMGPU_LINK", bad}}, [](int, const ncclUniqueId& id) { join(1, id, 0); });
    CHECK(job.statuses == std::vector<int>{2});
    CHECK(job.output.find("simgpu: SIMGPU_LINK=" + std::string(bad) + ": expected GB/s,us") == 0);
  }
}

TEST_CASE("counters: what a step does is counted", "[nccl]") {
  const Job job = run_job(1, silent, [](int, const ncclUniqueId& id) {
    const ncclComm_t comm = join(1, id, 0);
    const Workplace work;
    const cuda::Event event;
    const cuda::PinnedBuffer<float> pinned(8);
    const auto counted = [](auto operation) {
      const simgpu::Statistics before = simgpu::statistics();
      operation();
      return simgpu::statistics() - before;
    };
    using S = simgpu::Statistics;
    require(counted([] {}) == S{}, "nothing");
    require(counted([&] { work.all_reduce(comm, 4); }) == S{.first_uses = 1, .collectives = 1},
            "the first use of a communicator");
    require(counted([&] { work.all_reduce(comm, 4); }) == S{.collectives = 1}, "a collective");
    require(counted([&] { work.stream.synchronize(); }) == S{.host_waits = 1}, "a stream's wait");
    event.record(work.stream);
    require(counted([&] { event.synchronize(); }) == S{.host_waits = 1}, "an event's wait");
    require(counted([&] { cuda::check(cudaDeviceSynchronize()); }) == S{.host_waits = 1},
            "a device's wait");
    require(
        counted([&] { const cuda::DeviceBuffer<float> one(1); }) == S{.allocations = 1, .frees = 1},
        "an allocation and its end");
    require(
        counted([&] { const cuda::PinnedBuffer<float> one(1); }) == S{.allocations = 1, .frees = 1},
        "pinned memory");
    float host = 0, *const p = work.values.data();
    require(counted([&] { cuda::check(cudaMemcpy(&host, p, 4, cudaMemcpyDeviceToHost)); }) ==
                S{.host_waits = 1, .null_stream_calls = 1},
            "a copy that waits");
    require(
        counted([&] {
          cuda::check(cudaMemcpyAsync(pinned.data(), p, 4, cudaMemcpyDeviceToHost, work.stream));
        }) == S{},
        "a copy that does not");
    work.stream.synchronize();  // the null stream does not wait for it
    require(counted([&] { cuda::check(cudaMemset(p, 0, 4)); }) == S{.null_stream_calls = 1},
            "a memset");
    require_success(ncclCommDestroy(comm));
    work.stream.synchronize();
  });
  INFO(job.output);
  CHECK(job.passed());
}

}  // namespace
}  // namespace ddp::simulator
