#include "common/data/synthetic.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "common/data/dataset_builder.hpp"
#include "common/data/random.hpp"

namespace ddp {
namespace {

constexpr std::uint64_t key = 20171;  // any fixed number
constexpr std::size_t training_samples = 10000;
constexpr std::size_t test_samples = 2000;
constexpr std::size_t teacher_inputs = 16;

// One stream for each thing that is drawn.
enum Stream : std::uint32_t { labels, centres, noise, inputs, teacher_indices, teacher_weights };

double draw_normal(Stream stream, std::size_t index) {
  return normal(key, random_stream(RandomUse::synthetic_data, stream), index);
}
std::uint32_t draw_below(std::uint32_t bound, Stream stream, std::size_t index) {
  return uniform_below(bound, key, random_stream(RandomUse::synthetic_data, stream),
                       static_cast<std::uint32_t>(index));
}

Dataset classification(int input_size, int classes, std::size_t first_sample, std::size_t count) {
  const auto width = static_cast<std::size_t>(input_size);
  // Two random points of deviation s are s * sqrt(2 * width) apart on average.
  const double centre_deviation = 4 / std::sqrt(2.0 * input_size);
  const double scale = 1 / std::sqrt(1 + centre_deviation * centre_deviation);
  std::vector<float> points(static_cast<std::size_t>(classes) * width);
  for (std::size_t index = 0; index < points.size(); ++index) {
    points[index] = static_cast<float>(scale * centre_deviation * draw_normal(centres, index));
  }
  std::vector<float> features(count * width);
  std::vector<std::uint8_t> sample_labels(count);
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t sample = first_sample + row;
    const std::size_t label = draw_below(static_cast<std::uint32_t>(classes), labels, sample);
    sample_labels[row] = static_cast<std::uint8_t>(label);
    for (std::size_t column = 0; column < width; ++column) {
      features[row * width + column] =
          points[label * width + column] +
          static_cast<float>(scale * draw_normal(noise, sample * width + column));
    }
  }
  return DatasetBuilder::classification(input_size, classes, std::move(features),
                                        std::move(sample_labels));
}

Dataset regression(int input_size, int output_size, std::size_t first_sample, std::size_t count) {
  const auto width = static_cast<std::size_t>(input_size);
  const auto outputs = static_cast<std::size_t>(output_size);
  const std::size_t terms = std::min(teacher_inputs, width);
  std::vector<std::uint32_t> indices(outputs * terms);
  std::vector<double> weights(outputs * terms);
  for (std::size_t index = 0; index < weights.size(); ++index) {
    indices[index] = draw_below(static_cast<std::uint32_t>(input_size), teacher_indices, index);
    weights[index] = draw_normal(teacher_weights, index) / std::sqrt(static_cast<double>(terms));
  }
  std::vector<float> features(count * width);
  std::vector<float> targets(count * outputs);
  for (std::size_t row = 0; row < count; ++row) {
    const std::size_t sample = first_sample + row;
    float* const feature = &features[row * width];
    for (std::size_t column = 0; column < width; ++column) {
      feature[column] = static_cast<float>(draw_normal(inputs, sample * width + column));
    }
    for (std::size_t output = 0; output < outputs; ++output) {
      double sum = 0;
      for (std::size_t term = output * terms; term < (output + 1) * terms; ++term) {
        sum += weights[term] * feature[indices[term]];
      }
      targets[row * outputs + output] =
          static_cast<float>(std::tanh(sum) + 0.05 * draw_normal(noise, sample * outputs + output));
    }
  }
  return DatasetBuilder::regression(input_size, output_size, std::move(features),
                                    std::move(targets));
}

}  // namespace

TrainAndTest synthetic_classification(int input_size, int classes) {
  return {classification(input_size, classes, 0, training_samples),
          classification(input_size, classes, training_samples, test_samples)};
}

TrainAndTest synthetic_regression(int input_size, int output_size) {
  return {regression(input_size, output_size, 0, training_samples),
          regression(input_size, output_size, training_samples, test_samples)};
}

}  // namespace ddp
