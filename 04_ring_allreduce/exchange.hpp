#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

#include "03_naive_allreduce/device_messages.hpp"
#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// Sends device memory to one rank while it receives from another: what each step of a ring and of
/// a tree does. Neither waits for the other to be done, so a circle of ranks that all send cannot
/// block (deadlock.cpp shows what MPI_Send would do).
template <class T>
class Exchange {
 public:
  /// Without `device_pointers`, MPI sees pinned host memory only and the values are copied.
  Exchange(const mpi::Communicator& communicator, bool device_pointers)
      : communicator_(communicator), device_pointers_(device_pointers) {}

  /// Waits for the work in `stream`, which made `outgoing`. On return `incoming` has been received,
  /// or a copy into it has been enqueued in `stream`. Either may be empty: then the message is.
  void operator()(std::span<const T> outgoing, int destination, std::span<T> incoming, int source,
                  cudaStream_t stream) {
    if (device_pointers_) {
      cuda::check(cudaStreamSynchronize(stream));
      swap(outgoing, destination, incoming, source);
      return;
    }
    T* const sent = sent_.of_size(outgoing.size()).data();
    T* const received = received_.of_size(incoming.size()).data();
    cuda::copy_async(sent, outgoing.data(), outgoing.size(), stream);
    cuda::check(cudaStreamSynchronize(stream));
    swap({sent, outgoing.size()}, destination, {received, incoming.size()}, source);
    cuda::copy_async(incoming.data(), static_cast<const T*>(received), incoming.size(), stream);
  }

 private:
  void swap(std::span<const T> outgoing, int destination, std::span<T> incoming, int source) const {
    mpi::Request receive = communicator_.start_receive(incoming, source);
    mpi::Request send = communicator_.start_send(outgoing, destination);
    receive.wait();
    send.wait();
  }

  const mpi::Communicator& communicator_;
  const bool device_pointers_;
  GrowingBuffer<cuda::PinnedBuffer<T>> sent_;
  GrowingBuffer<cuda::PinnedBuffer<T>> received_;
};

}  // namespace ddp
