#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "common/cuda/check.hpp"
#include "common/cuda/device_memory.hpp"
#include "common/cuda/trace.hpp"

namespace ddp::cuda {

/// `size` elements of T in device memory, uninitialised, freed with the object. Freeing waits for
/// the device, so a buffer outlives the work that was enqueued on it.
template <class T>
class DeviceBuffer {
 public:
  DeviceBuffer() = default;
  explicit DeviceBuffer(std::size_t size) : size_(size) {
    if (size == 0) return;
    check(cudaMalloc(reinterpret_cast<void**>(&data_), size * sizeof(T)));
    count_device_bytes(static_cast<std::ptrdiff_t>(size * sizeof(T)));
  }
  DeviceBuffer(DeviceBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  DeviceBuffer& operator=(DeviceBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~DeviceBuffer() {
    if (data_ == nullptr) return;
    cudaFree(data_);
    count_device_bytes(-static_cast<std::ptrdiff_t>(size_ * sizeof(T)));
  }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// `size` elements of T in pinned host memory: the only host memory that a copy can read or write
/// while the host goes on. A copy reads it when the copy runs, not when it is enqueued.
template <class T>
class PinnedBuffer {
 public:
  PinnedBuffer() = default;
  explicit PinnedBuffer(std::size_t size) : size_(size) {
    if (size > 0) check(cudaMallocHost(reinterpret_cast<void**>(&data_), size * sizeof(T)));
  }
  PinnedBuffer(PinnedBuffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}
  PinnedBuffer& operator=(PinnedBuffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~PinnedBuffer() { cudaFreeHost(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return size_; }
  T& operator[](std::size_t index) const { return data_[index]; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Enqueues a copy of `count` elements; the direction follows from the pointers.
template <class T>
void copy_async(T* destination, const T* source, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  Timed timed(stream);
  check(cudaMemcpyAsync(destination, source, count * sizeof(T), cudaMemcpyDefault, stream));
  if (timed) timed.end(copy_operation(destination, source, count * sizeof(T)));
}

/// Enqueues setting `count` elements to zero bytes.
template <class T>
void clear_async(T* destination, std::size_t count, cudaStream_t stream) {
  if (count == 0) return;
  Timed timed(stream);
  check(cudaMemsetAsync(destination, 0, count * sizeof(T), stream));
  if (timed) timed.end({.kind = "clear", .name = "clear", .bytes = count * sizeof(T)});
}

/// Copies from host to device, or back, after the work in `stream`, and waits. For set-up, results
/// and tests; the training loop never waits like this.
template <class T>
void upload(T* device, std::span<const T> host, cudaStream_t stream) {
  copy_async(device, host.data(), host.size(), stream);
  check(cudaStreamSynchronize(stream));
}
template <class T>
std::vector<T> download(const T* device, std::size_t count, cudaStream_t stream) {
  std::vector<T> host(count);
  copy_async(host.data(), device, count, stream);
  check(cudaStreamSynchronize(stream));
  return host;
}

}  // namespace ddp::cuda
