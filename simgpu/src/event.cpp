#include <memory>

#include "quiet_mutex.hpp"
#include "sanitizer.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"
#include "stream.hpp"

/// An event is the last recording of it; waits use the one that was the last when they were called.
struct CUevent_st {
  explicit CUevent_st(simgpu::Device& device_, unsigned flags_) : device(device_), flags(flags_) {}

  simgpu::Device& device;
  const unsigned flags;

  std::shared_ptr<simgpu::Recording> last() {
    simgpu::QuietLock lock(mutex);
    return recording;
  }

  simgpu::QuietMutex mutex;
  std::shared_ptr<simgpu::Recording> recording;
};

namespace simgpu {

std::atomic<int>& live_events() {
  static std::atomic<int> count{0};
  return count;
}

}  // namespace simgpu

using simgpu::current;
using simgpu::report;
using simgpu::resolve;

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  if (event == nullptr || flags > (cudaEventBlockingSync | cudaEventDisableTiming)) {
    return report(cudaErrorInvalidValue);
  }
  *event = new CUevent_st(*device, flags);
  ++simgpu::live_events();
  return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  if (const auto [device, error] = current(); device == nullptr) return report(error);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  delete event;  // a recording on its way is owned by its stream as well
  --simgpu::live_events();
  return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t handle) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (event == nullptr || &event->device != &stream->device) {
    return report(cudaErrorInvalidResourceHandle);
  }
  auto recording = std::make_shared<simgpu::Recording>();
  auto task = std::make_unique<simgpu::FunctionTask>([recording] { recording->reach(); });
  task->runs_always = true;
  recording->set_place(*stream, simgpu::enqueue_ordered(*stream, std::move(task)));
  simgpu::QuietLock lock(event->mutex);
  event->recording = std::move(recording);
  return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event, unsigned flags) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (flags != cudaEventWaitDefault) return report(cudaErrorInvalidValue);
  const auto recording = event->last();
  if (recording == nullptr) return cudaSuccess;  // never recorded: nothing to wait for
  auto task = std::make_unique<simgpu::FunctionTask>([recording] { recording->wait(); });
  task->runs_always = task->waits_for_others = true;
  simgpu::enqueue_ordered(*stream, std::move(task));
  return cudaSuccess;
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  const auto recording = event->last();
  if (recording == nullptr) return cudaSuccess;
  if (!recording->reached()) return report(cudaErrorNotReady);
  recording->acquire();
  return report(event->device.sticky);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  ++simgpu::counters().host_waits;
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (event == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (const auto recording = event->last()) recording->wait_and_help();
  return report(event->device.sticky);
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t stop) {
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (milliseconds == nullptr) return report(cudaErrorInvalidValue);
  if (start == nullptr || stop == nullptr || &start->device != &stop->device ||
      ((start->flags | stop->flags) & cudaEventDisableTiming) != 0) {
    return report(cudaErrorInvalidResourceHandle);
  }
  const auto from = start->last(), to = stop->last();
  if (from == nullptr || to == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (!from->reached() || !to->reached()) return report(cudaErrorNotReady);
  *milliseconds = std::chrono::duration<float, std::milli>(to->time() - from->time()).count();
  return cudaSuccess;
}
