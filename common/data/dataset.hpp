#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "common/cli/options.hpp"

namespace ddp {

/// Samples in host memory: bytes of images with labels (IDX files), or synthetic floats.
///
/// Inputs are standardised when gathered: (pixel / 255 - mean) / standard deviation for images,
/// with the training set's own mean and deviation also for the test set.
class Dataset {
 public:
  int size() const { return size_; }
  int input_size() const { return input_size_; }
  /// Classes, for labelled data; targets per sample, for regression. 10 for Fashion-MNIST.
  int output_size() const { return output_size_; }
  double input_mean() const { return input_mean_; }
  double input_std() const { return input_std_; }

  /// Writes the standardised inputs of `samples` to `inputs`, shape (samples.size(), input_size).
  template <class T>
  void gather_inputs(std::span<const std::uint32_t> samples, T* inputs) const;
  /// Writes the labels, shape (samples.size()); only for labelled data.
  void gather_labels(std::span<const std::uint32_t> samples, std::int32_t* labels) const;
  /// Writes the targets, shape (samples.size(), output_size): one-hot rows for labelled data.
  template <class T>
  void gather_targets(std::span<const std::uint32_t> samples, T* targets) const;

  bool labelled() const { return !labels_.empty(); }

 private:
  friend struct DatasetBuilder;
  int size_ = 0;
  int input_size_ = 0;
  int output_size_ = 0;
  double input_mean_ = 0;
  double input_std_ = 1;
  std::vector<std::uint8_t> pixels_;  // (size, input_size), images
  std::vector<float> features_;       // (size, input_size), synthetic data
  std::vector<std::uint8_t> labels_;  // (size)
  std::vector<float> targets_;        // (size, output_size), regression
};

struct TrainAndTest {
  Dataset train;
  Dataset test;
};

/// Loads what `--data` names and checks it against `--layers` and `--loss`. Throws InputError with
/// the path and what was expected, or OptionError with both numbers where layers and data do not
/// fit.
TrainAndTest load_data(const Options& options);

}  // namespace ddp
