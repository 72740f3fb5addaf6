#include "common/run/loader.hpp"

#include <cstddef>

namespace ddp {

template <class T>
Loader<T>::Loader(const Dataset& data, LossKind loss, int max_batch, std::optional<Fault> fault)
    : data_(data), loss_(loss), fault_(fault) {
  const auto samples = static_cast<std::size_t>(max_batch);
  const std::size_t inputs = samples * static_cast<std::size_t>(data.input_size());
  const bool wants_labels = loss == LossKind::cross_entropy;
  const std::size_t labels = wants_labels ? samples : 0;
  const std::size_t targets =
      wants_labels ? 0 : samples * static_cast<std::size_t>(data.output_size());
  cuda::name_stream(stream_, "loader");
  for (Slot& slot : slots_) {
    slot.host_inputs = cuda::PinnedBuffer<T>(inputs);
    slot.host_labels = cuda::PinnedBuffer<std::int32_t>(labels);
    slot.host_targets = cuda::PinnedBuffer<T>(targets);
    slot.inputs = cuda::DeviceBuffer<T>(inputs);
    slot.labels = cuda::DeviceBuffer<std::int32_t>(labels);
    slot.targets = cuda::DeviceBuffer<T>(targets);
  }
}

template <class T>
Loader<T>::~Loader() {
  cudaStreamSynchronize(stream_);
}

template <class T>
Batch<T> Loader<T>::load(const MicroBatch& micro, const std::optional<MicroBatch>& next,
                         cudaStream_t compute) {
  // All that reads the batch before has been enqueued by now, so this marks the end of its reads.
  slots_[in_use_].consumed.record(compute);
  in_use_ = 1 - in_use_;
  Slot& slot = slots_[in_use_];
  if (slot.step != micro.step || slot.index != micro.index) start_copy(slot, micro);
  cuda::wait_for(compute, slot.copied);
  if (next) start_copy(slots_[1 - in_use_], *next);
  return {slot.inputs.data(), slot.labels.data(), slot.targets.data(),
          static_cast<int>(micro.samples.size())};
}

template <class T>
void Loader<T>::start_copy(Slot& slot, const MicroBatch& micro) {
  const cuda::Range range("load", micro.step);
  const std::size_t samples = micro.samples.size();
  const std::size_t inputs = samples * static_cast<std::size_t>(data_.input_size());
  slot.copied.synchronize();
  data_.gather_inputs(micro.samples, slot.host_inputs.data());
  if (const auto value = faulty_input(fault_, micro.step); value && micro.index == 0) {
    if (samples > 0) slot.host_inputs[0] = static_cast<T>(*value);
  }
  cuda::wait_for(stream_, slot.consumed);
  cuda::copy_async(slot.inputs.data(), slot.host_inputs.data(), inputs, stream_);
  if (loss_ == LossKind::cross_entropy) {
    data_.gather_labels(micro.samples, slot.host_labels.data());
    cuda::copy_async(slot.labels.data(), slot.host_labels.data(), samples, stream_);
  } else {
    const std::size_t targets = samples * static_cast<std::size_t>(data_.output_size());
    data_.gather_targets(micro.samples, slot.host_targets.data());
    cuda::copy_async(slot.targets.data(), slot.host_targets.data(), targets, stream_);
  }
  slot.copied.record(stream_);
  slot.step = micro.step;
  slot.index = micro.index;
}

template class Loader<float>;
template class Loader<double>;

}  // namespace ddp
