#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "common/data/dataset.hpp"
#include "common/io/training_result.hpp"

namespace ddp {

/// Every sample of `data` once.
inline std::vector<std::uint32_t> all_samples(const Dataset& data) {
  std::vector<std::uint32_t> all(static_cast<std::size_t>(data.size()));
  std::iota(all.begin(), all.end(), 0U);
  return all;
}

/// Losses and hits over `chosen` samples of `data`. Waits for the device. (A model is one of stage
/// 01, or what stage 06 makes of it.)
template <class AnyModel, class T>
EvaluationSums evaluate(AnyModel& model, const Loss<T>& loss, const Dataset& data, SampleIds chosen,
                        cudaStream_t stream) {
  const cuda::Range range("evaluate");
  const auto max_batch = static_cast<std::size_t>(model.max_batch());
  std::vector<T> inputs(max_batch * static_cast<std::size_t>(data.input_size()));
  std::vector<T> targets(max_batch * static_cast<std::size_t>(data.output_size()));
  std::vector<std::int32_t> labels(max_batch);
  const cuda::DeviceBuffer<T> device_inputs(inputs.size()), device_targets(targets.size());
  const cuda::DeviceBuffer<std::int32_t> device_labels(labels.size());
  const cuda::DeviceBuffer<StepScalars<T>> scalars(1);
  cuda::clear_async(scalars.data(), 1, stream);

  for (std::size_t first = 0; first < chosen.size(); first += max_batch) {
    const auto samples = chosen.subspan(first, std::min(max_batch, chosen.size() - first));
    data.gather_inputs<T>(samples, inputs.data());
    data.gather_targets<T>(samples, targets.data());
    if (data.labelled()) data.gather_labels(samples, labels.data());
    cuda::upload(device_inputs.data(), std::span<const T>(inputs), stream);
    cuda::upload(device_targets.data(), std::span<const T>(targets), stream);
    cuda::upload(device_labels.data(), std::span<const std::int32_t>(labels), stream);
    const Batch<T> batch{device_inputs.data(), device_labels.data(), device_targets.data(),
                         static_cast<int>(samples.size())};
    const T* outputs = model.forward(batch.inputs, batch.count);
    loss.forward_backward(outputs, batch, batch.count, scalars.data(), stream);
  }
  const StepScalars<T> sums = cuda::download(scalars.data(), 1, stream).front();
  return {static_cast<double>(sums.loss_sum),
          data.labelled() ? static_cast<double>(sums.correct)
                          : std::numeric_limits<double>::quiet_NaN(),
          static_cast<std::int64_t>(chosen.size())};
}

}  // namespace ddp
