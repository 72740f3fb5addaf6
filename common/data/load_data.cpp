#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "common/data/dataset.hpp"
#include "common/data/dataset_builder.hpp"
#include "common/data/faint.hpp"
#include "common/data/idx.hpp"
#include "common/data/synthetic.hpp"
#include "common/errors.hpp"

namespace ddp {
namespace {

namespace fs = std::filesystem;

constexpr int fashion_mnist_classes = 10;
constexpr int most_classes = 256;  // a label is a byte

// The four files of a data set in IDX format.
struct IdxFolder {
  fs::path train_images, train_labels, test_images, test_labels;
};

// Finds each file under its plain name or with .gz; throws InputError with all that are missing.
IdxFolder find_files(const fs::path& folder) {
  std::string missing;
  const auto find = [&](const std::string& name) {
    for (const fs::path& path : {folder / name, folder / (name + ".gz")}) {
      std::error_code ignored;
      if (fs::exists(path, ignored)) return path;
    }
    missing += (missing.empty() ? "" : ", ") + name + "[.gz]";
    return fs::path();
  };
  const IdxFolder files = {find("train-images-idx3-ubyte"), find("train-labels-idx1-ubyte"),
                           find("t10k-images-idx3-ubyte"), find("t10k-labels-idx1-ubyte")};
  if (!missing.empty()) throw InputError(folder.string() + ": missing in this folder: " + missing);
  return files;
}

IdxFolder fashion_mnist_files() {
  const char* const data_folder = std::getenv("DDP_DATA_DIR");
  const fs::path folder =
      fs::path(data_folder != nullptr ? data_folder : "/usr/share/datasets") / "fashion-mnist";
  try {
    return find_files(folder);
  } catch (const InputError& error) {
    throw InputError(std::string(error.what()) +
                     "; Debian and Ubuntu have Fashion-MNIST as package dataset-fashion-mnist, "
                     "elsewhere DDP_DATA_DIR names the folder that holds fashion-mnist/");
  }
}

void check_input_layer(const Options& options, const IdxImages& images, const fs::path& path) {
  const std::int64_t pixels = std::int64_t{images.rows} * images.columns;
  if (pixels != options.layers.front()) {
    throw OptionError("--layers begins with " + std::to_string(options.layers.front()) +
                      ", but the images of " + path.string() + " have " + std::to_string(pixels) +
                      " pixels (" + std::to_string(images.rows) + " x " +
                      std::to_string(images.columns) + ")");
  }
}

void check_output_layer(const Options& options, int classes) {
  if (classes != options.layers.back()) {
    throw OptionError("--layers ends with " + std::to_string(options.layers.back()) +
                      ", but the data has " + std::to_string(classes) + " classes");
  }
}

TrainAndTest load_images(const Options& options, const IdxFolder& files, int classes) {
  IdxImages train_images = read_idx_images(files.train_images);
  check_input_layer(options, train_images, files.train_images);
  IdxImages test_images = read_idx_images(files.test_images);
  check_input_layer(options, test_images, files.test_images);
  const PixelStatistics statistics = pixel_statistics(train_images.pixels);
  return {DatasetBuilder::images(std::move(train_images), read_idx_labels(files.train_labels),
                                 classes, statistics, files.train_labels.string()),
          DatasetBuilder::images(std::move(test_images), read_idx_labels(files.test_labels),
                                 classes, statistics, files.test_labels.string())};
}

TrainAndTest load_synthetic(const Options& options) {
  const int inputs = options.layers.front();
  const int outputs = options.layers.back();
  if (options.loss == LossKind::mse) return synthetic_regression(inputs, outputs);
  if (outputs > most_classes) {
    throw OptionError("--layers ends with " + std::to_string(outputs) +
                      ", but synthetic data has at most " + std::to_string(most_classes) +
                      " classes; --loss mse has no such limit");
  }
  return synthetic_classification(inputs, outputs);
}

TrainAndTest load_faint(const Options& options) {
  if (options.loss != LossKind::mse) throw OptionError("--data faint goes with --loss mse");
  return faint_regression(options.layers.front(), options.layers.back());
}

}  // namespace

TrainAndTest load_data(const Options& options) {
  if (options.data == "synthetic") return load_synthetic(options);
  if (options.data == "faint") return load_faint(options);
  if (options.data == "fashion-mnist") {
    check_output_layer(options, fashion_mnist_classes);
    return load_images(options, fashion_mnist_files(), fashion_mnist_classes);
  }
  std::error_code error;
  if (!fs::is_directory(options.data, error)) {
    throw InputError(options.data + ": " +
                     (error ? error.message() : std::string("Not a directory")) +
                     "; --data is fashion-mnist, synthetic, faint or a folder of IDX files");
  }
  // A folder does not say how many classes it has; the last layer does.
  return load_images(options, find_files(options.data), options.layers.back());
}

}  // namespace ddp
