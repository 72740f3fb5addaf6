#include "stream.hpp"

#include <algorithm>
#include <thread>

#include "settings.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"

namespace simgpu {

void Recording::reach() {
  time_ = std::chrono::steady_clock::now();
  sanitizer::release(this);
  reached_ = 1;
  reached_.notify_all();
}

void Recording::wait() {
  while (reached_.load() == 0) reached_.wait(0);
  acquire();
}

void Recording::set_place(CUstream_st& stream, std::uint32_t task) {
  stream_ = stream.weak_from_this();
  task_ = task;
}

void Recording::wait_and_help() {
  if (const auto stream = stream_.lock()) stream->help_until(task_);
  wait();
}

}  // namespace simgpu

struct CloseTask final : simgpu::Task {
  explicit CloseTask(CUstream_st& stream_) : stream(stream_) {
    runs_always = true;
    waits_for_others = true;  // is for the stream's own thread, which ends here
  }
  void run() override { stream.closed_ = true; }
  CUstream_st& stream;
};

std::shared_ptr<CUstream_st> CUstream_st::create(simgpu::Device& device, unsigned flags,
                                                 int priority) {
  static std::atomic<std::uint64_t> next_id{0};
  auto stream = std::make_shared<CUstream_st>(device, flags, priority, next_id++);
  // Detached: destroying a stream does not wait for its work, and neither does the end of main.
  std::thread([stream] { stream->work(); }).detach();
  return stream;
}

std::uint32_t CUstream_st::push(std::unique_ptr<simgpu::Task> task) {
  simgpu::sanitizer::release(task.get());
  std::uint32_t number;
  {
    simgpu::QuietLock lock(mutex_);
    simgpu::Task* added = task.release();
    (last_ == nullptr ? first_ : last_->next) = added;
    last_ = added;
    number = ++pushed_;
  }
  ++wake_;
  wake_.notify_one();
  return number;
}

std::uint32_t CUstream_st::tail() {
  simgpu::QuietLock lock(mutex_);
  return pushed_;
}

void CUstream_st::wait_until(std::uint32_t number) {
  help_until(number);
  for (auto seen = completed_.load(); static_cast<std::int32_t>(seen - number) < 0;
       seen = completed_.load()) {
    completed_.wait(seen);
  }
  simgpu::sanitizer::acquire(this);
}

void CUstream_st::wait_while_busy(std::uint32_t number) {
  using namespace std::chrono_literals;
  while (!finished(number) && !waits_for_others_) std::this_thread::sleep_for(5us);
}

void CUstream_st::close() {
  push(std::make_unique<CloseTask>(*this));
  close_requested_ = true;
}

/// SIMGPU_SCHEDULE=delays:SEED: every fourth operation comes up to a millisecond late.
void CUstream_st::delay(std::uint32_t number) const {
  const std::uint64_t draw = simgpu::mix(simgpu::settings().delay_seed, id_, number);
  if (draw % 4 == 0) std::this_thread::sleep_for(std::chrono::microseconds(draw / 4 % 1000));
}

/// Runs the first task of the queue; false if there is none to be taken.
bool CUstream_st::run_next(Runner runner) {
  std::unique_ptr<simgpu::Task> task;
  {
    simgpu::QuietLock lock(mutex_);
    if (running_ || first_ == nullptr) return false;
    if (runner == Runner::helper && first_->waits_for_others) return false;
    running_ = true;
    task.reset(std::exchange(first_, first_->next));
    if (first_ == nullptr) last_ = nullptr;
  }
  simgpu::sanitizer::acquire(task.get());
  const std::uint32_t number = completed_.load() + 1;
  if (simgpu::settings().schedule == simgpu::Schedule::delays) delay(number);
  if (device.sticky == cudaSuccess || task->runs_always) {
    if (task->waits_for_others) waits_for_others_ = true;
    task->run();
    waits_for_others_ = false;
  }
  task.reset();
  simgpu::sanitizer::release(this);
  {
    simgpu::QuietLock lock(mutex_);
    running_ = false;
    completed_.store(number);
  }
  completed_.notify_all();
  return true;
}

void CUstream_st::help_until(std::uint32_t number) {
  // To TSan, a task on the host's thread would come after all that the host has done: it must not
  // see less than on a GPU. And the other schedules are to be what they say.
  if (simgpu::sanitizer::tsan || simgpu::settings().schedule != simgpu::Schedule::async) return;
  if (simgpu::is_worker()) return;
  simgpu::set_worker_device(&device);
  bool helped = false;
  while (!finished(number) && run_next(Runner::helper)) helped = true;
  simgpu::set_worker_device(nullptr);
  if (helped && !finished(tail())) {  // the stream's thread may have gone to sleep meanwhile
    ++wake_;
    wake_.notify_one();
  }
}

void CUstream_st::work() {
  simgpu::set_worker_device(&device);
  while (!closed_) {
    const auto seen = wake_.load();
    if (!run_next(Runner::own_thread)) wake_.wait(seen);
  }
}

namespace simgpu {

std::uint32_t enqueue_ordered(CUstream_st& stream, std::unique_ptr<Task> task) {
  // The legacy null stream waits for what all blocking streams have been given so far, and what
  // they are given from now on waits for it.
  const auto wait_for = [&stream](CUstream_st& other) {
    const std::uint32_t number = other.tail();
    if (number == 0 || (other.finished(number) && !sanitizer::tsan)) return;
    auto wait = std::make_unique<FunctionTask>(
        [kept = other.shared_from_this(), number] { kept->wait_until(number); });
    wait->runs_always = wait->waits_for_others = true;
    stream.push(std::move(wait));
  };
  std::uint32_t number;
  if (!stream.blocking()) {
    number = stream.push(std::move(task));
  } else {
    Device& device = stream.device;
    QuietLock lock(device.mutex);
    if (stream.is_null) {
      for (const auto& other : device.streams) {
        if (other->blocking()) wait_for(*other);
      }
    } else if (device.null_stream) {
      wait_for(*device.null_stream);
    }
    number = stream.push(std::move(task));
  }
  if (settings().schedule == Schedule::eager) stream.wait_while_busy(number);
  return number;
}

Resolved resolve(cudaStream_t handle) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return {nullptr, error};
  if (handle != nullptr) return {handle, handle->device.sticky};
  ++counters().null_stream_calls;
  return {null_stream(*device).get(), cudaSuccess};
}

std::shared_ptr<CUstream_st> null_stream(Device& device) {
  QuietLock lock(device.mutex);
  if (!device.null_stream) {
    device.null_stream = CUstream_st::create(device, cudaStreamDefault, 0);
    device.null_stream->is_null = true;
  }
  return device.null_stream;
}

void forget_closed_streams(Device& device) {
  QuietLock lock(device.mutex);
  std::erase_if(device.streams, [](const auto& stream) { return stream->closed_and_done(); });
}

cudaError_t enqueue(cudaStream_t handle, std::unique_ptr<Task> task) {
  const auto [stream, error] = resolve(handle);
  if (error == cudaSuccess) enqueue_ordered(*stream, std::move(task));
  return report(error);
}

}  // namespace simgpu

using simgpu::current;
using simgpu::report;
using simgpu::resolve;

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return cudaStreamCreateWithPriority(stream, cudaStreamDefault, 0);
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  if (stream == nullptr || flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  simgpu::forget_closed_streams(*device);
  auto made = CUstream_st::create(*device, flags, std::clamp(priority, -5, 0));
  *stream = made.get();
  simgpu::QuietLock lock(device->mutex);
  device->streams.push_back(std::move(made));
  return cudaSuccess;
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (priority == nullptr) return report(cudaErrorInvalidValue);
  *priority = stream->priority;
  return cudaSuccess;
}

cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (flags == nullptr) return report(cudaErrorInvalidValue);
  *flags = stream->flags;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const auto [device, error] = current(); device == nullptr) return report(error);
  if (stream == nullptr) return report(cudaErrorInvalidResourceHandle);
  // Its work goes on, and waiting for the device still waits for it.
  stream->close();
  simgpu::forget_closed_streams(stream->device);
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  ++simgpu::counters().host_waits;
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (stream->is_null) {  // also waits for what the null stream waits for
    simgpu::enqueue_ordered(*stream, std::make_unique<simgpu::FunctionTask>([] {}));
  }
  stream->wait_until(stream->tail());
  return report(stream->device.sticky);
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (!stream->finished(stream->tail())) return report(cudaErrorNotReady);
  simgpu::sanitizer::acquire(stream);
  return report(stream->device.sticky);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* user_data) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (function == nullptr) return report(cudaErrorInvalidValue);
  auto task = std::make_unique<simgpu::FunctionTask>([function, user_data] {
    simgpu::set_inside_host_function(true);
    function(user_data);
    simgpu::set_inside_host_function(false);
  });
  task->waits_for_others = true;
  simgpu::enqueue_ordered(*stream, std::move(task));
  return cudaSuccess;
}
