#include "common/data/dataset_builder.hpp"

#include <cmath>
#include <cstddef>
#include <utility>

#include "common/errors.hpp"

namespace ddp {

PixelStatistics pixel_statistics(std::span<const std::uint8_t> pixels) {
  std::uint64_t sum = 0;
  std::uint64_t sum_of_squares = 0;
  for (const std::uint32_t pixel : pixels) {
    sum += pixel;
    sum_of_squares += pixel * pixel;
  }
  // n * sum of squares - (sum)^2 has more than 64 bits for a real data set.
  __extension__ using Wide = unsigned __int128;
  const Wide spread = Wide{pixels.size()} * sum_of_squares - Wide{sum} * sum;
  const double scale = 255.0 * static_cast<double>(pixels.size());
  const double deviation = std::sqrt(static_cast<double>(spread)) / scale;
  return {static_cast<double>(sum) / scale, spread == 0 ? 1 : deviation};
}

Dataset DatasetBuilder::images(IdxImages images, std::vector<std::uint8_t> labels, int classes,
                               const PixelStatistics& statistics, const std::string& name) {
  if (static_cast<std::size_t>(images.count) != labels.size()) {
    throw InputError(name + ": " + std::to_string(images.count) + " images, but " +
                     std::to_string(labels.size()) + " labels");
  }
  for (std::size_t index = 0; index < labels.size(); ++index) {
    if (labels[index] >= classes) {
      throw InputError(name + ": label of sample " + std::to_string(index) + " is " +
                       std::to_string(labels[index]) + "; allowed are 0.." +
                       std::to_string(classes - 1));
    }
  }
  Dataset dataset;
  dataset.size_ = images.count;
  dataset.input_size_ = images.rows * images.columns;
  dataset.output_size_ = classes;
  dataset.input_mean_ = statistics.mean;
  dataset.input_std_ = statistics.deviation;
  dataset.pixels_ = std::move(images.pixels);
  dataset.labels_ = std::move(labels);
  return dataset;
}

Dataset DatasetBuilder::classification(int input_size, int classes, std::vector<float> features,
                                       std::vector<std::uint8_t> labels) {
  Dataset dataset;
  dataset.size_ = static_cast<int>(labels.size());
  dataset.input_size_ = input_size;
  dataset.output_size_ = classes;
  dataset.features_ = std::move(features);
  dataset.labels_ = std::move(labels);
  return dataset;
}

Dataset DatasetBuilder::regression(int input_size, int output_size, std::vector<float> features,
                                   std::vector<float> targets) {
  Dataset dataset;
  dataset.size_ = static_cast<int>(features.size() / static_cast<std::size_t>(input_size));
  dataset.input_size_ = input_size;
  dataset.output_size_ = output_size;
  dataset.features_ = std::move(features);
  dataset.targets_ = std::move(targets);
  return dataset;
}

}  // namespace ddp
