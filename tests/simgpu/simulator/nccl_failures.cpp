// What simulated NCCL does, and in diagnose mode says, of calls that do not fit and of ranks that
// are gone.
#include <nccl.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/simulator/nccl_processes.hpp"
#include "tests/support/catch.hpp"

namespace ddp::simulator {
namespace {

using namespace std::chrono_literals;

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

}  // namespace
}  // namespace ddp::simulator
