#pragma once

#include <cuda_runtime.h>
#include <nccl.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/stream.hpp"

namespace ddp::nccl {

/// A thread that watches over this rank's collectives on the device. NCCL itself does not tell when
/// a peer is gone: inside a host its asynchronous error stays silent, the kernel goes on waiting,
/// and the host, sooner or later, waits for the kernel. So the watchdog looks at progress. Behind
/// every collective there is an event; where none has been reached for `timeout`, it says which
/// bucket of which step is stuck and who has not come, aborts the communicator (under a deadline of
/// its own, for that may hang as well) and ends the job with exit code 5.
class Watchdog {
 public:
  /// The device must be selected. `timeout` 0: watches for NCCL's own errors only.
  Watchdog(ncclComm_t communicator, std::chrono::duration<double> timeout);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

  /// The all-reduce of `bucket` in `step` was the last thing to be enqueued in `stream`. Does not
  /// wait for the device.
  void enqueued(std::int64_t step, std::size_t bucket, cudaStream_t stream);

 private:
  using Clock = std::chrono::steady_clock;
  struct Pending {
    std::int64_t number;  // of the collective, from 1
    std::int64_t step;
    std::size_t bucket;
    cuda::Event end;
  };

  void watch(const std::stop_token& stop);
  void check_progress();
  void check_errors() const;
  [[noreturn]] void end_job(const std::string& reason) const;

  const ncclComm_t communicator_;
  const std::chrono::duration<double> timeout_;
  const int device_;
  std::mutex mutex_;  // of what follows
  std::int64_t count_ = 0;
  std::deque<Pending> pending_;
  std::vector<cuda::Event> free_events_;
  Clock::time_point last_progress_;
  std::jthread thread_;  // last: it uses the others
};

}  // namespace ddp::nccl
