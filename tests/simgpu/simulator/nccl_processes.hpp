#pragma once

#include <nccl.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"

namespace ddp::simulator {

using Environment = std::vector<std::pair<std::string, std::string>>;

/// How a job of processes ended.
struct Job {
  std::vector<int> statuses;  ///< exit statuses; 128 + signal; -1: it took longer than 30 s
  std::string output;         ///< of all ranks
  bool passed() const;
};

/// Forks a process for each rank, each with its own device. Rank 0 makes the unique id. A rank
/// whose `body` throws prints why and ends with status 1. The caller must not have used simgpu.
Job run_job(int ranks, const Environment& environment,
            const std::function<void(int rank, const ncclUniqueId& id)>& body);

void require(bool condition, const std::string& what);
void require_success(ncclResult_t result);

/// Settings of a job.
extern const Environment diagnose, silent;

ncclComm_t join(int ranks, const ncclUniqueId& id, int rank);
ncclResult_t async_error(ncclComm_t comm);

/// Values on a device, and a stream.
struct Workplace {
  cuda::Stream stream;
  cuda::DeviceBuffer<float> values{1000};
  void all_reduce(ncclComm_t comm, std::size_t count) const;
};

}  // namespace ddp::simulator
