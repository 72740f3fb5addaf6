// What simulated NCCL refuses, how long an operation takes over a link, and what is counted.
#include <nccl.h>

#include <chrono>
#include <ctime>
#include <string>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "simgpu/include/simgpu/statistics.h"
#include "tests/simgpu/simulator/nccl_processes.hpp"
#include "tests/support/catch.hpp"

namespace ddp::simulator {
namespace {

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
