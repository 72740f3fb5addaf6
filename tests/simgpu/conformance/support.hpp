#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/check.hpp"
#include "tests/support/catch.hpp"

/// What the conformance tests share. They state CUDA's documented behaviour, and the same lines run
/// on simulated GPUs (preset sim) and on real ones (preset cuda).
namespace ddp::conformance {

/// Holds a stream back: work enqueued after the gate does not begin until open() is called. So a
/// test can look at a stream that certainly has work left. While a gate is shut a test calls
/// nothing that may wait for the whole device: no allocation, no first launch of a kernel (the
/// program has all kernels loaded at its start), no second host function.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) { cuda::check(cudaLaunchHostFunc(stream, wait, this)); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;
  /// Opens the gate and waits until the stream has passed it, for the host function uses it.
  ~Gate() {
    open();
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return passed_; });
  }

  void open() {
    const std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }

 private:
  static void wait(void* self) {
    Gate& gate = *static_cast<Gate*>(self);
    std::unique_lock lock(gate.mutex_);
    gate.changed_.wait(lock, [&gate] { return gate.open_; });
    gate.passed_ = true;
    gate.changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
  bool passed_ = false;
};

/// Keeps a stream busy for `milliseconds` without anything from the host.
inline void keep_busy(cudaStream_t stream, int milliseconds) {
  const auto sleep = [](void* duration) {
    const auto count = static_cast<long>(reinterpret_cast<std::size_t>(duration));
    std::this_thread::sleep_for(std::chrono::milliseconds(count));
  };
  cuda::check(cudaLaunchHostFunc(stream, sleep,
                                 reinterpret_cast<void*>(static_cast<std::size_t>(milliseconds))));
}

/// True if the stream still has work after a wrong runtime had time to run ahead.
inline bool stays_pending(cudaStream_t stream) {
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  return cudaStreamQuery(stream) == cudaErrorNotReady;
}

/// Everything in `buffer`, after all work of the current device.
template <class T>
std::vector<T> read_back(const cuda::DeviceBuffer<T>& buffer) {
  std::vector<T> host(buffer.size());
  cuda::check(cudaDeviceSynchronize());
  cuda::check(
      cudaMemcpy(host.data(), buffer.data(), host.size() * sizeof(T), cudaMemcpyDeviceToHost));
  return host;
}

/// A copy of `host` in device memory.
template <class T>
cuda::DeviceBuffer<T> on_device(const std::vector<T>& host) {
  cuda::DeviceBuffer<T> buffer(host.size());
  cuda::check(
      cudaMemcpy(buffer.data(), host.data(), host.size() * sizeof(T), cudaMemcpyHostToDevice));
  cuda::check(cudaDeviceSynchronize());
  return buffer;
}

/// `size` zeros in device memory.
template <class T>
cuda::DeviceBuffer<T> zeros_on_device(std::size_t size) {
  return on_device(std::vector<T>(size));
}

}  // namespace ddp::conformance

/// So that a failed comparison prints cudaErrorInvalidValue rather than 1.
template <>
struct Catch::StringMaker<cudaError_t> {
  static std::string convert(cudaError_t status) { return cudaGetErrorName(status); }
};
template <>
struct Catch::StringMaker<cublasStatus_t> {
  static std::string convert(cublasStatus_t status) { return cublasGetStatusName(status); }
};
