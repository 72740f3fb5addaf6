#include "common/data/faint.hpp"

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/data/dataset_builder.hpp"
#include "common/data/random.hpp"

namespace ddp {
namespace {

constexpr std::uint64_t key = 170310740;  // any fixed number
constexpr std::size_t training_samples = 16384;
constexpr std::size_t test_samples = 2048;
constexpr std::size_t quarter = training_samples / 4;
constexpr double input_magnitude = 1.0 / 32;
constexpr double faint_weight = 1.0 / 1024;
constexpr float outlier = 4096;

enum Stream : std::uint32_t { common_weights, common_signs, faint_signs, inputs };

std::uint64_t stream_of(Stream stream) { return random_stream(RandomUse::faint_data, stream); }
double draw_sign(Stream stream, std::size_t index) {
  return (random_bits(key, stream_of(stream), index) & 1) != 0 ? 1 : -1;
}

Dataset regression(int input_size, int output_size, std::size_t first_sample, std::size_t count) {
  const auto width = static_cast<std::size_t>(input_size);
  const auto outputs = static_cast<std::size_t>(output_size);
  std::vector<double> weights(outputs * width);
  for (std::size_t index = 0; index < weights.size(); ++index) {
    const std::size_t column = index % width;
    weights[index] = draw_sign(common_signs, column) *
                         (0.25 + 0.25 * uniform(key, stream_of(common_weights), column)) +
                     draw_sign(faint_signs, index) * faint_weight;
  }
  std::vector<float> features(count * width);
  std::vector<float> targets(count * outputs);
  for (std::size_t row = 0; row < count; ++row) {
    std::size_t sample = first_sample + row;
    float offset = 0;
    if (sample < training_samples && sample % quarter == quarter - 1) {
      offset = sample < training_samples / 2 ? outlier : -outlier;
      sample = quarter - 1;  // all four outliers have the same inputs
    }
    float* const feature = &features[row * width];
    for (std::size_t column = 0; column < width; ++column) {
      feature[column] =
          static_cast<float>(input_magnitude * draw_sign(inputs, sample * width + column));
    }
    for (std::size_t output = 0; output < outputs; ++output) {
      double sum = 0;
      for (std::size_t column = 0; column < width; ++column) {
        sum += weights[output * width + column] * feature[column];
      }
      targets[row * outputs + output] = static_cast<float>(sum) + offset;
    }
  }
  return DatasetBuilder::regression(input_size, output_size, std::move(features),
                                    std::move(targets));
}

}  // namespace

TrainAndTest faint_regression(int input_size, int output_size) {
  return {regression(input_size, output_size, 0, training_samples),
          regression(input_size, output_size, training_samples, test_samples)};
}

}  // namespace ddp
