#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// Memory that grows to the largest size that was asked for, and loses its values when it does. So
/// only the first step of a training run allocates.
template <class Buffer>
class GrowingBuffer {
 public:
  Buffer& of_size(std::size_t size) {
    if (buffer_.size() < size) buffer_ = Buffer(size);
    return buffer_;
  }

 private:
  Buffer buffer_;
};

/// MPI_Send and MPI_Recv of device memory. MPI knows nothing of streams: what is sent must have
/// been computed before the call, so that the host waits for the stream first.
template <class T>
class DeviceMessages {
 public:
  /// Without `device_pointers`, MPI sees pinned host memory only and the values are copied.
  DeviceMessages(const mpi::Communicator& communicator, bool device_pointers)
      : communicator_(communicator), device_pointers_(device_pointers) {}

  void send(std::span<const T> values, int destination, cudaStream_t stream) {
    if (device_pointers_) {
      cuda::check(cudaStreamSynchronize(stream));
      communicator_.send(values, destination);
      return;
    }
    T* const host = host_.of_size(values.size()).data();
    cuda::copy_async(host, values.data(), values.size(), stream);
    cuda::check(cudaStreamSynchronize(stream));
    communicator_.send(std::span<const T>(host, values.size()), destination);
  }

  /// Later work in `stream` finds `values` complete.
  void receive(std::span<T> values, int source, cudaStream_t stream) {
    cuda::check(cudaStreamSynchronize(stream));  // earlier work may still use the memory
    if (device_pointers_) {
      communicator_.receive(values, source);
      return;
    }
    T* const host = host_.of_size(values.size()).data();
    communicator_.receive(std::span<T>(host, values.size()), source);
    cuda::copy_async(values.data(), static_cast<const T*>(host), values.size(), stream);
  }

 private:
  const mpi::Communicator& communicator_;
  const bool device_pointers_;
  GrowingBuffer<cuda::PinnedBuffer<T>> host_;
};

}  // namespace ddp
