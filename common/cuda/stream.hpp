#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "common/cuda/check.hpp"

namespace ddp::cuda {

/// The priority of streams whose work goes before that of others, where the device has to choose.
inline int highest_priority() {
  int least = 0, greatest = 0;
  check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
  return greatest;
}

/// A queue of work on the current device. It is non-blocking: it does not wait for the null stream,
/// nor the null stream for it.
class Stream {
 public:
  explicit Stream(int priority = 0) {
    check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, priority));
  }
  Stream(Stream&& other) noexcept : stream_(std::exchange(other.stream_, nullptr)) {}
  Stream& operator=(Stream&&) = delete;
  ~Stream() {
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
  }

  /// So that a Stream can stand where CUDA wants a cudaStream_t.
  operator cudaStream_t() const { return stream_; }

  /// Blocks the host until everything enqueued so far has run.
  void synchronize() const { check(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A mark in a stream that other streams or the host can wait for, and that carries a time.
class Event {
 public:
  Event() { check(cudaEventCreate(&event_)); }
  Event(Event&& other) noexcept : event_(std::exchange(other.event_, nullptr)) {}
  Event& operator=(Event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~Event() {
    if (event_ != nullptr) cudaEventDestroy(event_);
  }

  operator cudaEvent_t() const { return event_; }

  void record(cudaStream_t stream) const { check(cudaEventRecord(event_, stream)); }

  /// Blocks the host until the work before the last record() has run; at once if none was recorded.
  void synchronize() const { check(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

/// Makes `stream` wait, on the device, for the work before `event`'s last record. The host goes on.
inline void wait_for(cudaStream_t stream, const Event& event) {
  check(cudaStreamWaitEvent(stream, event, 0));
}

/// Seconds between two recorded events that have both been reached.
inline double seconds_between(const Event& start, const Event& stop) {
  float milliseconds = 0;
  check(cudaEventElapsedTime(&milliseconds, start, stop));
  return static_cast<double>(milliseconds) * 1e-3;
}

}  // namespace ddp::cuda
