#include "common/data/dataset.hpp"

#include <algorithm>
#include <array>

namespace ddp {

template <class T>
void Dataset::gather_inputs(std::span<const std::uint32_t> samples, T* inputs) const {
  const auto width = static_cast<std::size_t>(input_size_);
  // A byte has 256 values only: a table is faster than the arithmetic.
  std::array<T, 256> standardised{};
  for (std::size_t byte = 0; byte < standardised.size(); ++byte) {
    const double scaled = static_cast<double>(byte) / 255;
    standardised[byte] = static_cast<T>((scaled - input_mean_) / input_std_);
  }
  for (const std::uint32_t sample : samples) {
    const std::size_t begin = sample * width;
    if (pixels_.empty()) {
      const float* const row = &features_[begin];
      std::transform(row, row + width, inputs, [](float value) { return static_cast<T>(value); });
    } else {
      const std::uint8_t* const row = &pixels_[begin];
      std::transform(row, row + width, inputs,
                     [&](std::uint8_t byte) { return standardised[byte]; });
    }
    inputs += width;
  }
}

void Dataset::gather_labels(std::span<const std::uint32_t> samples, std::int32_t* labels) const {
  for (const std::uint32_t sample : samples) *labels++ = labels_[sample];
}

template <class T>
void Dataset::gather_targets(std::span<const std::uint32_t> samples, T* targets) const {
  const auto width = static_cast<std::size_t>(output_size_);
  for (const std::uint32_t sample : samples) {
    if (labelled()) {
      std::fill_n(targets, width, T{0});
      targets[labels_[sample]] = 1;
    } else {
      const float* const row = &targets_[sample * width];
      std::transform(row, row + width, targets, [](float value) { return static_cast<T>(value); });
    }
    targets += width;
  }
}

template void Dataset::gather_inputs(std::span<const std::uint32_t>, float*) const;
template void Dataset::gather_inputs(std::span<const std::uint32_t>, double*) const;
template void Dataset::gather_targets(std::span<const std::uint32_t>, float*) const;
template void Dataset::gather_targets(std::span<const std::uint32_t>, double*) const;

}  // namespace ddp
