#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>

#include "device.hpp"
#include "quiet_mutex.hpp"
#include "sanitizer.hpp"
#include "simgpu/launch.h"

namespace simgpu {

/// A point that an event's record() marks in a stream: reached once, at a time.
class Recording {
 public:
  /// To be called before others know the recording: `task` of `stream` reaches it.
  void set_place(CUstream_st& stream, std::uint32_t task);
  void reach();
  void wait();
  /// As wait(), on a host thread, which helps the stream meanwhile.
  void wait_and_help();
  bool reached() const { return reached_.load() != 0; }
  /// For a caller that has seen reached(): what came before it is visible now.
  void acquire() const { sanitizer::acquire(this); }
  std::chrono::steady_clock::time_point time() const { return time_; }

 private:
  std::atomic<unsigned> reached_{0};
  std::chrono::steady_clock::time_point time_;
  std::weak_ptr<CUstream_st> stream_;
  std::uint32_t task_ = 0;
};

}  // namespace simgpu

/// A stream: a queue of tasks and the OS thread that runs them in order. The thread sleeps while
/// the queue is empty and ends with the stream. A host thread that waits for the stream runs tasks
/// that the stream's thread has not come to: with more threads than cores, waking another thread
/// and being woken by it can cost more than the task.
struct CUstream_st : std::enable_shared_from_this<CUstream_st> {
  static std::shared_ptr<CUstream_st> create(simgpu::Device& device, unsigned flags, int priority);

  simgpu::Device& device;
  const unsigned flags;
  const int priority;
  bool is_null = false;

  bool blocking() const { return (flags & cudaStreamNonBlocking) == 0; }
  /// Appends a task; returns its number, counted from 1 (and wrapping around).
  std::uint32_t push(std::unique_ptr<simgpu::Task> task);
  /// The number of the last task.
  std::uint32_t tail();
  bool finished(std::uint32_t number) const {
    return static_cast<std::int32_t>(completed_.load() - number) >= 0;
  }
  /// Blocks the caller until task `number` has run.
  void wait_until(std::uint32_t number);
  /// Runs tasks up to `number` on the calling host thread, until there are none that it can take.
  void help_until(std::uint32_t number);
  /// For the eager schedule: as wait_until, but gives up while the stream waits for somebody else.
  void wait_while_busy(std::uint32_t number);
  /// Lets the thread end after the last task. The device keeps the stream until then.
  void close();
  bool closed_and_done() { return close_requested_ && finished(tail()); }
  bool close_requested() const { return close_requested_; }

  CUstream_st(simgpu::Device& device_, unsigned flags_, int priority_, std::uint64_t id)
      : device(device_), flags(flags_), priority(priority_), id_(id) {}

 private:
  void work();
  enum class Runner { own_thread, helper };
  bool run_next(Runner runner);
  void delay(std::uint32_t number) const;

  const std::uint64_t id_;
  simgpu::QuietMutex mutex_;
  simgpu::Task* first_ = nullptr;
  simgpu::Task* last_ = nullptr;
  std::uint32_t pushed_ = 0;
  bool running_ = false;  // somebody runs a task
  std::atomic<std::uint32_t> wake_{0};
  std::atomic<std::uint32_t> completed_{0};
  std::atomic<bool> waits_for_others_{false};
  std::atomic<bool> close_requested_{false};
  bool closed_ = false;  // of the stream's thread only
  friend struct CloseTask;
};

namespace simgpu {

/// A task made of a function.
struct FunctionTask final : Task {
  explicit FunctionTask(std::function<void()> function_) : function(std::move(function_)) {}
  void run() override { function(); }
  std::function<void()> function;
};

/// Enqueues where CUDA's rules for the null stream put it. Returns the task's number in `stream`.
std::uint32_t enqueue_ordered(CUstream_st& stream, std::unique_ptr<Task> task);

/// Drops the streams that were destroyed and have nothing left to do.
void forget_closed_streams(Device& device);

/// The stream that a handle means for the calling thread; null means the device's null stream.
struct Resolved {
  CUstream_st* stream;
  cudaError_t error;
};
Resolved resolve(cudaStream_t handle);

/// The device's null stream, which is made at its first use.
std::shared_ptr<CUstream_st> null_stream(Device& device);

}  // namespace simgpu
