#pragma once

#include <cuda_runtime.h>

#include <span>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/exchange.hpp"
#include "common/cuda/buffer.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// MPI_Allreduce: the library's own choice of algorithm, to compare with. Its messages pass by
/// Communicator, so they are not counted, and the order of addition is the library's affair.
template <class T>
class MpiAllReduce final : public AllReduce<T> {
 public:
  /// As RingAllReduce.
  MpiAllReduce(const mpi::Communicator& communicator, bool device_pointers)
      : communicator_(communicator), device_pointers_(device_pointers) {}

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override;

 private:
  const mpi::Communicator& communicator_;
  const bool device_pointers_;
  GrowingBuffer<cuda::PinnedBuffer<T>> staged_;
};

}  // namespace ddp
