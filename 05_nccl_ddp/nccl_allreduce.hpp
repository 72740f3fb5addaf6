#pragma once

#include <nccl.h>

#include <span>

#include "03_naive_allreduce/all_reduce.hpp"
#include "03_naive_allreduce/check_spans.hpp"
#include "05_nccl_ddp/communicator.hpp"
#include "common/cuda/trace.hpp"

namespace ddp {

// NCCL's name for an element's type.
template <class T>
constexpr ncclDataType_t nccl_type = ncclNumTypes;
template <>
inline constexpr ncclDataType_t nccl_type<float> = ncclFloat32;
template <>
inline constexpr ncclDataType_t nccl_type<double> = ncclFloat64;

/// ncclAllReduce. Unlike those of stages 03 and 04 it is an operation of the stream, as a kernel
/// is: the call returns once it is enqueued, and the device does the rest. The order of addition is
/// NCCL's affair: on real GPUs it depends on size and topology; simulated ones add in the order of
/// the ranks, as the naive all-reduce does.
template <class T>
class NcclAllReduce final : public AllReduce<T> {
 public:
  explicit NcclAllReduce(const nccl::Communicator& communicator) : communicator_(communicator) {}

  using AllReduce<T>::sum;
  void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) override {
    check_spans(input, output);
    if (output.empty()) return;
    cuda::Timed timed(stream);
    communicator_.finish(ncclAllReduce(input.data(), output.data(), output.size(), nccl_type<T>,
                                       ncclSum, communicator_.handle(), stream));
    if (timed) {
      timed.end({.kind = "collective", .name = "ncclAllReduce", .bytes = output.size_bytes()});
    }
  }

 private:
  const nccl::Communicator& communicator_;
};

}  // namespace ddp
