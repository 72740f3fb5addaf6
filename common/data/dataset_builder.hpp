#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/data/idx.hpp"

namespace ddp {

/// Mean and population standard deviation of pixels scaled to [0, 1].
struct PixelStatistics {
  double mean;
  double deviation;  ///< 1 where all pixels are equal, so that standardising divides by no zero
};

/// Exact up to the last division and root: the sums are integers.
PixelStatistics pixel_statistics(std::span<const std::uint8_t> pixels);

/// The only one that fills a Dataset.
struct DatasetBuilder {
  /// Images with labels. Throws InputError, which begins with `name`, where the numbers of images
  /// and labels differ or a label is not below `classes`.
  static Dataset images(IdxImages images, std::vector<std::uint8_t> labels, int classes,
                        const PixelStatistics& statistics, const std::string& name);

  /// `features` has shape (labels.size(), input_size).
  static Dataset classification(int input_size, int classes, std::vector<float> features,
                                std::vector<std::uint8_t> labels);

  /// `features` has shape (samples, input_size), `targets` (samples, output_size).
  static Dataset regression(int input_size, int output_size, std::vector<float> features,
                            std::vector<float> targets);
};

}  // namespace ddp
