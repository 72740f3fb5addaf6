#include "tests/simgpu/simulator/nccl_processes.hpp"

#include <cuda_runtime.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <thread>

#include "common/cuda/check.hpp"

namespace ddp::simulator {
namespace {

using namespace std::chrono_literals;

struct SharedId {
  std::atomic<int> made;
  ncclUniqueId id;
};

[[noreturn]] void be_rank(int rank, SharedId& shared, int output, const Environment& environment,
                          const std::function<void(int, const ncclUniqueId&)>& body) {
  for (const auto& [name, value] : environment) setenv(name.c_str(), value.c_str(), 1);
  dup2(output, STDOUT_FILENO);
  dup2(output, STDERR_FILENO);
  int status = 0;
  try {
    cuda::check(cudaSetDevice(rank));
    if (rank == 0) {
      require_success(ncclGetUniqueId(&shared.id));
      shared.made = 1;
    }
    while (shared.made == 0) std::this_thread::sleep_for(1ms);
    body(rank, shared.id);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
    status = 1;
  }
  std::fflush(nullptr);
  _exit(status);
}

int status_of(pid_t process, std::chrono::steady_clock::time_point deadline) {
  int status = 0;
  while (waitpid(process, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline) {
      kill(process, SIGKILL);
      waitpid(process, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(1ms);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

bool Job::passed() const {
  return std::all_of(statuses.begin(), statuses.end(), [](int status) { return status == 0; });
}

Job run_job(int ranks, const Environment& environment,
            const std::function<void(int, const ncclUniqueId&)>& body) {
  void* const memory =
      mmap(nullptr, sizeof(SharedId), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  const int output = memfd_create("output", MFD_CLOEXEC);
  fcntl(output, F_SETFL, O_APPEND);  // so that ranks that write at once do not overwrite each other
  require(memory != MAP_FAILED && output >= 0, "memory for a job");
  SharedId& shared = *static_cast<SharedId*>(memory);
  std::fflush(nullptr);
  std::vector<pid_t> processes;
  for (int rank = 0; rank < ranks; ++rank) {
    const pid_t process = fork();
    require(process >= 0, "a process");
    if (process == 0) be_rank(rank, shared, output, environment, body);
    processes.push_back(process);
  }
  Job job;
  const auto deadline = std::chrono::steady_clock::now() + 30s;
  for (const pid_t process : processes) job.statuses.push_back(status_of(process, deadline));
  job.output.resize(static_cast<std::size_t>(lseek(output, 0, SEEK_END)));
  const ssize_t read = pread(output, job.output.data(), job.output.size(), 0);
  require(read == static_cast<ssize_t>(job.output.size()), "the job's output");
  close(output);
  munmap(memory, sizeof(SharedId));
  return job;
}

void require(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected: " + what);
}

void require_success(ncclResult_t result) {
  require(result == ncclSuccess, std::string("success, got ") + ncclGetErrorString(result) + ": " +
                                     ncclGetLastError(nullptr));
}

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

void Workplace::all_reduce(ncclComm_t comm, std::size_t count) const {
  require_success(
      ncclAllReduce(values.data(), values.data(), count, ncclFloat32, ncclSum, comm, stream));
}

}  // namespace ddp::simulator
