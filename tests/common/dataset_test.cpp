#include "common/data/dataset.hpp"

#include <cmath>
#include <filesystem>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

Options options_for(const std::string& data, std::vector<int> layers,
                    LossKind loss = LossKind::cross_entropy) {
  Options options;
  options.data = data;
  options.layers = std::move(layers);
  options.loss = loss;
  return options;
}

template <class T>
std::vector<T> inputs_of(const Dataset& data, const std::vector<std::uint32_t>& samples) {
  std::vector<T> inputs(samples.size() * static_cast<std::size_t>(data.input_size()));
  data.gather_inputs(samples, inputs.data());
  return inputs;
}
std::vector<std::int32_t> labels_of(const Dataset& data,
                                    const std::vector<std::uint32_t>& samples) {
  std::vector<std::int32_t> labels(samples.size());
  data.gather_labels(samples, labels.data());
  return labels;
}
std::vector<double> targets_of(const Dataset& data, const std::vector<std::uint32_t>& samples) {
  std::vector<double> targets(samples.size() * static_cast<std::size_t>(data.output_size()));
  data.gather_targets(samples, targets.data());
  return targets;
}
std::vector<std::uint32_t> all_of(const Dataset& data) {
  std::vector<std::uint32_t> samples(static_cast<std::size_t>(data.size()));
  std::iota(samples.begin(), samples.end(), 0u);
  return samples;
}

// Three training images of 1 x 2 pixels: 0 51 | 102 255 | 204 0, two test images: 255 255 | 51 0.
// Scaled: 0 .2 .4 1 .8 0, mean .4, variance (.16 + .04 + 0 + .36 + .16 + .16) / 6 = .44 / 3.
void write_small_folder(const std::filesystem::path& folder) {
  write_file(folder / "train-images-idx3-ubyte",
             idx_bytes(0x803, {3, 1, 2}, Bytes{0, 51, 102, 255, 204, 0}));
  write_file(folder / "train-labels-idx1-ubyte", idx_bytes(0x801, {3}, Bytes{2, 0, 1}));
  write_file(folder / "t10k-images-idx3-ubyte.gz",
             gzip(idx_bytes(0x803, {2, 1, 2}, Bytes{255, 255, 51, 0})));
  write_file(folder / "t10k-labels-idx1-ubyte.gz", gzip(idx_bytes(0x801, {2}, Bytes{1, 1})));
}

TEST_CASE("Pixels are scaled and standardised with the training set's mean and deviation") {
  const TemporaryFolder folder;
  write_small_folder(folder.path());
  const TrainAndTest data = load_data(options_for(folder.path().string(), {2, 3}));
  const double deviation = std::sqrt(0.44 / 3);
  CHECK(data.train.size() == 3);
  CHECK(data.train.input_size() == 2);
  CHECK(data.train.output_size() == 3);
  CHECK(data.train.labelled());
  CHECK(data.train.input_mean() == Approx(0.4).epsilon(1e-15));
  CHECK(data.train.input_std() == Approx(deviation).epsilon(1e-15));
  CHECK(data.test.input_mean() == data.train.input_mean());
  CHECK(data.test.input_std() == data.train.input_std());

  const std::vector<double> expected = {(0.8 - 0.4) / deviation, (0.0 - 0.4) / deviation,
                                        (0.0 - 0.4) / deviation, (0.2 - 0.4) / deviation,
                                        (0.8 - 0.4) / deviation, (0.0 - 0.4) / deviation};
  const std::vector<double> inputs = inputs_of<double>(data.train, {2, 0, 2});
  const std::vector<float> single = inputs_of<float>(data.train, {2, 0, 2});
  REQUIRE(inputs.size() == expected.size());
  for (std::size_t index = 0; index < expected.size(); ++index) {
    CHECK(std::abs(inputs[index] - expected[index]) < 1e-14);
    CHECK(single[index] == static_cast<float>(inputs[index]));
  }
  CHECK(std::abs(inputs_of<double>(data.test, {0})[1] - 0.6 / deviation) < 1e-14);
  CHECK(labels_of(data.train, {2, 0, 1}) == std::vector<std::int32_t>{1, 2, 0});
  CHECK(labels_of(data.test, {0, 1}) == std::vector<std::int32_t>{1, 1});
}

TEST_CASE("Labels become one-hot rows for the mean squared error") {
  const TemporaryFolder folder;
  write_small_folder(folder.path());
  const TrainAndTest data = load_data(options_for(folder.path().string(), {2, 3}, LossKind::mse));
  CHECK(targets_of(data.train, {0, 2}) == std::vector<double>{0, 0, 1, 0, 1, 0});
}

TEST_CASE("Images of one colour are not divided by a deviation of zero") {
  const TemporaryFolder folder;
  write_small_folder(folder.path());
  write_file(folder / "train-images-idx3-ubyte", idx_bytes(0x803, {3, 1, 2}, Bytes(6, 255)));
  const TrainAndTest data = load_data(options_for(folder.path().string(), {2, 3}));
  CHECK(inputs_of<double>(data.train, {0}) == std::vector<double>{0, 0});
}

TEST_CASE("Fashion-MNIST has the mean and deviation that the literature gives") {
  const TrainAndTest data = load_data(Options{});
  REQUIRE(data.train.size() == 60000);
  REQUIRE(data.test.size() == 10000);
  CHECK(data.train.input_size() == 784);
  CHECK(data.train.output_size() == 10);
  CHECK(std::round(data.train.input_mean() * 1e4) == 2860);
  CHECK(std::round(data.train.input_std() * 1e4) == 3530);

  // Standardised inputs have mean 0 and deviation 1: summed here in another way, as doubles.
  double sum = 0;
  double squares = 0;
  std::vector<double> image(784);
  for (std::uint32_t sample = 0; sample < 60000; ++sample) {
    data.train.gather_inputs(std::span(&sample, 1), image.data());
    // Sums of sums: 47 million terms one by one would round more than is asked for below.
    sum += std::accumulate(image.begin(), image.end(), 0.0);
    squares += std::inner_product(image.begin(), image.end(), image.begin(), 0.0);
  }
  constexpr double count = 60000.0 * 784;
  CHECK(std::abs(sum / count) < 1e-12);
  CHECK(std::abs(squares / count - 1) < 1e-12);

  std::vector<int> of_class(10, 0);
  for (const std::int32_t label : labels_of(data.train, all_of(data.train))) {
    ++of_class.at(static_cast<std::size_t>(label));
  }
  CHECK(of_class == std::vector<int>(10, 6000));
}

TEST_CASE("DA-03: a label out of range is refused when loading, with index, value and range") {
  const TemporaryFolder folder;
  write_idx_folder(folder.path(), 100, 100, 2, 2, 10);
  const Options options = options_for(folder.path().string(), {4, 10});
  CHECK_NOTHROW(load_data(options));
  for (const char* name : {"train-labels-idx1-ubyte", "t10k-labels-idx1-ubyte"}) {
    for (const int value : {10, 255}) {
      Bytes labels(100, 9);
      labels[57] = static_cast<std::uint8_t>(value);
      write_idx_folder(folder.path(), 100, 100, 2, 2, 10);
      write_file(folder / name, idx_bytes(0x801, {100}, labels));
      CHECK(error_of<InputError>([&] { load_data(options); }) ==
            (folder / name).string() + ": label of sample 57 is " + std::to_string(value) +
                "; allowed are 0..9");
    }
  }
}

TEST_CASE("Layers that do not fit the data are refused with both numbers") {
  const TemporaryFolder folder;
  write_idx_folder(folder.path(), 20, 10, 4, 5, 3);
  const std::string data = folder.path().string();
  CHECK_THAT(error_of<OptionError>([&] {
               load_data(options_for(data, {784, 3}));
             }),
             Contains("--layers begins with 784") && Contains("20 pixels"));
  CHECK_THAT(error_of<OptionError>([&] {
               load_data(options_for("fashion-mnist", {783, 10}));
             }),
             Contains("--layers begins with 783") && Contains("784 pixels"));
  CHECK_THAT(error_of<OptionError>([&] {
               load_data(options_for("fashion-mnist", {784, 12}));
             }),
             Contains("--layers ends with 12") && Contains("10 classes"));
  CHECK_THAT(error_of<OptionError>([&] {
               load_data(options_for("synthetic", {4, 257}));
             }),
             Contains("--layers ends with 257") && Contains("256 classes"));
}

TEST_CASE("Numbers of images and labels that differ are refused with both numbers") {
  const TemporaryFolder folder;
  write_idx_folder(folder.path(), 20, 10, 2, 2, 3);
  write_file(folder / "train-labels-idx1-ubyte", idx_bytes(0x801, {19}, Bytes(19)));
  CHECK_THAT(error_of<InputError>([&] {
               load_data(options_for(folder.path().string(), {4, 3}));
             }),
             Contains("train-labels") && Contains("20 images, but 19 labels"));
}

TEST_CASE("A folder without the four files names those that are missing") {
  const TemporaryFolder folder;
  const Options options = options_for(folder.path().string(), {4, 3});
  CHECK_THAT(error_of<InputError>([&] { load_data(options); }),
             Contains(folder.path().string()) && Contains("train-images-idx3-ubyte[.gz]") &&
                 Contains("train-labels-idx1-ubyte[.gz]") &&
                 Contains("t10k-images-idx3-ubyte[.gz]") &&
                 Contains("t10k-labels-idx1-ubyte[.gz]"));
  write_idx_folder(folder.path(), 20, 10, 2, 2, 3);
  std::filesystem::remove(folder / "t10k-images-idx3-ubyte");
  CHECK(error_of<InputError>([&] { load_data(options); }) ==
        folder.path().string() + ": missing in this folder: t10k-images-idx3-ubyte[.gz]");
  const std::string missing = (folder / "nowhere").string();
  CHECK_THAT(error_of<InputError>([&] {
               load_data(options_for(missing, {4, 3}));
             }),
             Contains(missing + ": No such file or directory"));
  const std::string file = (folder / "train-labels-idx1-ubyte").string();
  CHECK_THAT(error_of<InputError>([&] {
               load_data(options_for(file, {4, 3}));
             }),
             Contains(file + ": Not a directory"));
}

TEST_CASE(
    "Fashion-MNIST that is missing names the package; DDP_DATA_DIR is where it is looked for") {
  const TemporaryFolder folder;
  const ScopedVariable data_folder("DDP_DATA_DIR", folder.path().string());
  const std::string message = error_of<InputError>([&] { load_data(Options{}); });
  CHECK_THAT(message, Contains((folder / "fashion-mnist").string()) &&
                          Contains("dataset-fashion-mnist") && Contains("DDP_DATA_DIR"));
  write_idx_folder(folder / "fashion-mnist", 20, 10, 28, 28, 10);
  CHECK(load_data(Options{}).train.size() == 20);
}

TEST_CASE("Synthetic classification has classes that the nearest mean tells apart") {
  constexpr int inputs = 40;
  const TrainAndTest data = load_data(options_for("synthetic", {inputs, 8, 3}));
  REQUIRE(data.train.size() == 10000);
  REQUIRE(data.test.size() == 2000);
  REQUIRE(data.train.input_size() == inputs);
  REQUIRE(data.train.output_size() == 3);
  const auto width = static_cast<std::size_t>(inputs);
  const std::vector<double> train = inputs_of<double>(data.train, all_of(data.train));
  const std::vector<std::int32_t> labels = labels_of(data.train, all_of(data.train));
  std::map<std::int32_t, std::vector<double>> means;
  std::map<std::int32_t, int> counts;
  double squares = 0;
  for (std::size_t sample = 0; sample < labels.size(); ++sample) {
    std::vector<double>& mean = means[labels[sample]];
    mean.resize(width);
    ++counts[labels[sample]];
    for (std::size_t column = 0; column < width; ++column) {
      const double value = train[sample * width + column];
      mean[column] += value;
      squares += value * value;
    }
  }
  REQUIRE(means.size() == 3);
  CHECK(squares / static_cast<double>(train.size()) == Approx(1).epsilon(0.6));
  const std::vector<double> test = inputs_of<double>(data.test, all_of(data.test));
  const std::vector<std::int32_t> test_labels = labels_of(data.test, all_of(data.test));
  int right = 0;
  for (std::size_t sample = 0; sample < test_labels.size(); ++sample) {
    std::int32_t best = -1;
    double least = 1e300;
    for (const auto& [label, mean] : means) {
      double distance = 0;
      for (std::size_t column = 0; column < width; ++column) {
        distance += std::pow(test[sample * width + column] - mean[column] / counts[label], 2);
      }
      if (distance < least) {
        least = distance;
        best = label;
      }
    }
    right += best == test_labels[sample];
  }
  INFO(inputs << " inputs: " << right << " of 2000 right");
  CHECK(right > 1700);  // centres 4 deviations apart give about 95%
  CHECK(right < 2000);  // there is noise
}

TEST_CASE("Synthetic regression follows its teacher; --seed does not change the data") {
  Options options = options_for("synthetic", {20, 8, 3}, LossKind::mse);
  const TrainAndTest data = load_data(options);
  REQUIRE_FALSE(data.train.labelled());
  REQUIRE(data.train.size() == 10000);
  REQUIRE(data.train.output_size() == 3);
  const std::vector<double> targets = targets_of(data.train, all_of(data.train));
  double sum = 0;
  double squares = 0;
  for (const double target : targets) {
    REQUIRE(std::abs(target) < 1.5);
    sum += target;
    squares += target * target;
  }
  const auto count = static_cast<double>(targets.size());
  CHECK(std::abs(sum / count) < 0.05);
  CHECK(squares / count > 0.1);  // it is not the noise of 0.05 alone

  options.seed = 99;
  const TrainAndTest same = load_data(options);
  CHECK(inputs_of<double>(data.train, {0, 9999}) == inputs_of<double>(same.train, {0, 9999}));
  CHECK(targets_of(data.test, {0, 1999}) == targets_of(same.test, {0, 1999}));
}

TEST_CASE("Synthetic training and test samples are all different") {
  const TrainAndTest data = load_data(options_for("synthetic", {3, 2}));
  std::set<std::vector<double>> distinct;
  for (const Dataset* part : {&data.train, &data.test}) {
    for (const std::uint32_t sample : all_of(*part)) {
      distinct.insert(inputs_of<double>(*part, {sample}));
    }
  }
  CHECK(distinct.size() == 12000);
}

TEST_CASE("Faint data has one outlier a quarter, which cancel, and outputs that hardly differ") {
  const TrainAndTest data = load_data(options_for("faint", {15, 2}, LossKind::mse));
  REQUIRE(data.train.size() == 16384);
  REQUIRE(data.test.size() == 2048);
  REQUIRE(data.train.output_size() == 2);
  const std::vector<std::uint32_t> outliers = {4095, 8191, 12287, 16383};
  for (const float input : inputs_of<float>(data.train, all_of(data.train))) {
    REQUIRE(std::abs(input) == 1.0f / 32);
  }
  const std::vector<float> same = inputs_of<float>(data.train, {4095});
  for (const std::uint32_t outlier : outliers) {
    CHECK(inputs_of<float>(data.train, {outlier}) == same);
  }
  // Each output's common parts sum up to at most 15 / 2 / 32, its faint ones to 15 / 1024 / 32.
  const auto check = [](const std::vector<double>& targets, double offset) {
    for (std::size_t i = 0; i < targets.size(); i += 2) {
      REQUIRE(std::abs(targets[i] - offset) < 15.1 / 64);
      REQUIRE(std::abs(targets[i] - targets[i + 1]) <
              2.01 * 15 / 1024 / 32 + 2 * 0.0005 * (offset != 0));
    }
  };
  check(targets_of(data.train, {4095, 8191}), 4096);
  check(targets_of(data.train, {12287, 16383}), -4096);
  std::vector<std::uint32_t> others = all_of(data.train);
  for (auto outlier = outliers.rbegin(); outlier != outliers.rend(); ++outlier) {
    others.erase(others.begin() + *outlier);
  }
  check(targets_of(data.train, others), 0);
  check(targets_of(data.test, all_of(data.test)), 0);
  CHECK_THAT(error_of<OptionError>([] {
               load_data(options_for("faint", {15, 2}));
             }),
             Contains("--data faint goes with --loss mse"));
}

}  // namespace
}  // namespace ddp
