#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <span>
#include <type_traits>

#include "01_single_gpu/parameter_store.hpp"
#include "03_naive_allreduce/all_reduce.hpp"
#include "05_nccl_ddp/nccl_allreduce.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "06_mixed_precision/cast.cuh"
#include "common/cli/options.hpp"
#include "common/cuda/buffer.hpp"

namespace ddp {

template <>
inline constexpr ncclDataType_t nccl_type<__half> = ncclFloat16;
template <>
inline constexpr ncclDataType_t nccl_type<__nv_bfloat16> = ncclBfloat16;

/// --reduce-dtype same: sends fp32 gradients as halves T, which is half of the bytes, and adds them
/// as halves, which is not the same sum: each addition rounds to 11 bits (bf16: 8), and what is
/// small beside what is there already is lost. The numbers behind the gradients, the sums of losses
/// and flags, go as they are.
template <class T>
class HalfAllReduce final : public AllReduce<Wide<T>> {
 public:
  /// For spans of `gradients_and_extras`, of which the first `gradients` elements are gradients.
  HalfAllReduce(const nccl::Communicator& communicator, std::span<Wide<T>> gradients_and_extras,
                std::size_t gradients)
      : halves_(communicator),
        whole_(communicator),
        all_(gradients_and_extras),
        gradients_(gradients),
        buffer_(gradients) {}

  using AllReduce<Wide<T>>::sum;
  void sum(std::span<const Wide<T>> input, std::span<Wide<T>> output,
           cudaStream_t stream) override {
    check_spans(input, output);
    const std::size_t count = gradients_in(output);
    const std::span<T> halves(buffer_.data() + begin_of(output), count);
    cast(input.first(count), halves, stream);
    halves_.sum(halves, stream);
    cast(std::span<const T>(halves), output.first(count), stream);
    whole_.sum(input.subspan(count), output.subspan(count), stream);
  }

  std::size_t bytes(std::span<const Wide<T>> values) const override {
    const std::size_t count = gradients_in(values);
    return count * sizeof(T) + values.subspan(count).size_bytes();
  }

 private:
  // The buffer is laid out as the gradients: a bucket finds its part by where it begins.
  std::size_t begin_of(std::span<const Wide<T>> values) const {
    return static_cast<std::size_t>(values.data() - all_.data());
  }
  std::size_t gradients_in(std::span<const Wide<T>> values) const {
    return std::min(values.size(), gradients_ - std::min(begin_of(values), gradients_));
  }

  NcclAllReduce<T> halves_;
  NcclAllReduce<Wide<T>> whole_;
  std::span<Wide<T>> all_;
  std::size_t gradients_;
  cuda::DeviceBuffer<T> buffer_;  // laid out as the gradients
};

/// For StepReducer, what `options` ask for: NCCL adds gradients as they are, or as halves H.
template <class H, class T>
typename StepReducer<T>::MakeNccl nccl_in(const Options& options,
                                          const ParameterStore<T>& parameters) {
  if constexpr (!std::is_same_v<H, T>) {
    if (options.reduce_type == ReduceType::same) {
      return [&](const nccl::Communicator& nccl) {
        return std::make_unique<HalfAllReduce<H>>(nccl, parameters.gradients_and_extras(),
                                                  parameters.gradients().size());
      };
    }
  }
  return {};
}

}  // namespace ddp
