// Problems so small that the right numbers, and those of the usual mistakes, are known by hand.

#include <numeric>
#include <string>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/cut.hpp"
#include "02_grad_accum/train.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

Options toy_options(std::vector<int> layers, int global_batch, int micro_batch,
                    Accumulate accumulate) {
  Options options;
  options.layers = std::move(layers);
  options.loss = LossKind::mse;
  options.learning_rate = 1;
  options.momentum = 0;
  options.global_batch = global_batch;
  options.micro_batch = micro_batch;
  options.accumulate = accumulate;
  options.shuffle = false;
  options.quiet = true;
  return options;
}

// Linear outputs w * 1 + b, from w = b = 0, and steps put together by hand from the stage's parts.
template <class T>
class Toy {
 public:
  explicit Toy(const Options& options)
      : options_(options),
        model_(options, micro_batch_size(options), stream_, loss_extras),
        loss_(options.loss, options.layers.back(), micro_batch_size(options)),
        accumulator_(options, model_.parameters(), leaf_count(options)),
        sgd_(options, model_.parameters(), stream_) {
    cuda::clear_async(model_.parameters().values().data(), model_.parameters().values().size(),
                      stream_);
  }

  // Targets of shape (samples, outputs). Returns the scalars that the step leaves.
  StepScalars<T> step(const std::vector<T>& targets) {
    const auto outputs = static_cast<std::size_t>(options_.layers.back());
    std::vector<std::uint32_t> ids(targets.size() / outputs);
    std::iota(ids.begin(), ids.end(), 0U);
    Step step{++number_, 1, ids, {}};
    for (const SampleIds part : micro_batch_cut(options_)(ids, 0, 1)) {
      step.micro_batches.push_back({number_, static_cast<int>(step.micro_batches.size()), part});
    }
    clear_sums(scalars_.data(), stream_);
    std::size_t first = 0;
    for (const MicroBatch& micro : step.micro_batches) {
      const std::size_t count = micro.samples.size();
      const DeviceValues<T> inputs(count, T(1));
      const auto begin = targets.begin() + static_cast<std::ptrdiff_t>(first * outputs);
      const DeviceValues<T> device_targets(
          std::vector<T>(begin, begin + static_cast<std::ptrdiff_t>(count * outputs)));
      const Batch<T> batch{inputs.data(), nullptr, device_targets.data(), static_cast<int>(count)};
      const T* y = model_.forward(batch.inputs, batch.count);
      model_.backward(loss_.forward_backward(y, batch, step.count(), scalars_.data(), stream_),
                      accumulator_.beta(micro));
      accumulator_.add(micro, step, scalars_.data(), stream_);
      stream_.synchronize();  // before the inputs go away
      first += count;
    }
    sgd_.step(model_.parameters(), options_.learning_rate, scalars_.data(), stream_);
    return scalars_.read(stream_);
  }

  std::vector<T> weight() const { return download(model_.parameters().value(0), stream_); }
  std::vector<T> bias() const { return download(model_.parameters().value(1), stream_); }

 private:
  Options options_;
  cuda::Stream stream_;
  Model<T> model_;
  Loss<T> loss_;
  GradientAccumulator<T> accumulator_;
  Sgd<T> sgd_;
  DeviceScalars<T> scalars_;
  std::int64_t number_ = 0;
};

// Images of one black pixel, so that inputs are 0 and outputs are the bias alone. Towards one-hot
// rows with rate 1, one step takes the bias to the share of each class: Toy T for a whole program.
void write_classes(const std::filesystem::path& folder, const std::vector<std::uint8_t>& labels) {
  const auto count = static_cast<std::uint32_t>(labels.size());
  const std::vector<std::uint8_t> pixels(labels.size(), 0);
  for (const std::string name : {"train", "t10k"}) {
    write_file(folder / (name + "-images-idx3-ubyte"), idx_bytes(0x803, {count, 1, 1}, pixels));
    write_file(folder / (name + "-labels-idx1-ubyte"), idx_bytes(0x801, {count}, labels));
  }
}

}  // namespace

TEMPLATE_TEST_CASE("GA-01: targets 1, 2, 3, 4, 10 in micro-batches of 2, 2 and 1 have the mean 4",
                   "", float, double) {
  using T = TestType;
  for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
    INFO("accumulate " << static_cast<int>(accumulate));
    for (const int micro_batch : {5, 4, 3, 2, 1}) {
      INFO("micro-batches of " << micro_batch);
      Toy<T> toy(toy_options({1, 1}, 5, micro_batch, accumulate));
      const StepScalars<T> scalars = toy.step({1, 2, 3, 4, 10});
      // 5: mean of means. 20: never divided. 20/3: divided by the number of micro-batches.
      // 2: only the last micro-batch. Weight and bias have the same gradient by different kernels.
      CHECK(toy.weight() == std::vector<T>{4});
      CHECK(toy.bias() == std::vector<T>{4});
      CHECK(scalars.loss_sum == T(0.5 * (1 + 4 + 9 + 16 + 100)));
    }
  }
}

TEMPLATE_TEST_CASE("a second step begins anew: nothing of the first one's gradient is in it", "",
                   float, double) {
  using T = TestType;
  for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
    INFO("accumulate " << static_cast<int>(accumulate));
    Toy<T> toy(toy_options({1, 1}, 5, 2, accumulate));
    toy.step({1, 2, 3, 4, 10});
    REQUIRE(toy.weight() == std::vector<T>{4});
    // Outputs are 8 now. Targets with the mean 6: the gradient is 2. With the first step's -4 still
    // in it, it would be -2 and w = 6.
    const StepScalars<T> scalars = toy.step({2, 4, 6, 8, 10});
    CHECK(toy.weight() == std::vector<T>{2});
    CHECK(toy.bias() == std::vector<T>{2});
    CHECK(scalars.loss_sum == T(0.5 * (36 + 16 + 4 + 0 + 4)));
    // A short batch, as at the end of an epoch: two samples, in pairwise two leaves are empty.
    // Outputs are 4, the mean is 5.
    toy.step({3, 7});
    CHECK(toy.weight() == std::vector<T>{3});
    // And a full one again. Outputs are 6, the mean is 6.
    toy.step({2, 4, 6, 8, 10});
    CHECK(toy.weight() == std::vector<T>{3});
  }
}

TEMPLATE_TEST_CASE("SH-01: losses 1 of 4 samples, 1 of 4 and 4 of 1 are reported as 1.3333", "",
                   float, double) {
  using T = TestType;
  // Half the squared distance from (0, 0) to (1, 1) is 1, to (2, 2) it is 4.
  std::vector<T> targets(16, T(1));
  targets.insert(targets.end(), {2, 2});
  for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
    Toy<T> toy(toy_options({1, 2}, 9, 4, accumulate));
    // 2.0 (a sum of 18): mean of means. 4/9 (a sum of 4): only the last micro-batch.
    CHECK(toy.step(targets).loss_sum == T(12));
  }
}

TEST_CASE("GA-01, SH-01: a whole run finds the share of each class, and reports the whole batch",
          "[not-tsan]") {
  const TemporaryFolder folder;
  write_classes(folder.path(), {0, 0, 0, 1, 2});
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
      for (const int micro_batch : {5, 4, 3, 2, 1}) {
        INFO("precision " << static_cast<int>(precision) << ", accumulate "
                          << static_cast<int>(accumulate) << ", micro-batches of " << micro_batch);
        Options options = toy_options({1, 3}, 5, micro_batch, accumulate);
        options.data = folder.path().string();
        options.precision = precision;
        options.steps = 3;
        const TrainingResult result = grad_accum::train(options);
        REQUIRE(result.steps.size() == 3);
        for (const StepRecord& step : result.steps) CHECK(step.samples == 5);
        const double roundings = precision == Precision::fp32 ? 1e-6 : 1e-15;
        // Outputs (0, 0, 0): each sample's loss is 1/2.
        CHECK(std::abs(result.steps[0].loss - 0.5) < roundings);
        // Outputs (3/5, 1/5, 1/5): 0.12 three times, 0.52 twice. In micro-batches of 2, 2 and 1 the
        // mean of means were 0.32, the last one alone 0.52 or 0.104; a gradient that is a mean of
        // means would lead to (1/2, 1/6, 1/3) and 0.3111.
        CHECK(std::abs(result.steps[1].loss - 0.28) < roundings);
        // That was the minimum: the gradient of step 2 is 0, unless one of step 1 is in it.
        CHECK(std::abs(result.steps[2].loss - 0.28) < roundings);
        CHECK(std::abs(result.test.loss - 0.28) < roundings);
      }
    }
  }
}

TEST_CASE("GA-01: a short last batch is divided by its own number of samples") {
  const TemporaryFolder folder;
  write_classes(folder.path(), {0, 0, 0, 1, 2, 0, 1, 1});  // batches of 5 and 3
  for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
    Options options = toy_options({1, 3}, 5, 2, accumulate);
    options.data = folder.path().string();
    options.precision = Precision::fp64;
    options.steps = 3;
    const TrainingResult result = grad_accum::train(options);
    REQUIRE(result.steps.size() == 3);
    CHECK(result.steps[1].samples == 3);
    // Step 2 from (3/5, 1/5, 1/5): 0.12 and twice 0.52. It leads to the shares (1/3, 2/3, 0), from
    // which classes 0, 1 and 2 have 4/9, 1/9 and 7/9.
    CHECK(std::abs(result.steps[1].loss - 1.16 / 3) < 1e-15);
    CHECK(std::abs(result.steps[2].loss - (3 * 4 + 1 + 7) / 45.0) < 1e-15);
  }
}

TEST_CASE("a perfect fit, whose loss and gradient are 0, differs from one pass by 0") {
  const TemporaryFolder folder;
  write_classes(folder.path(), {0, 0, 0, 0, 0});
  Options options = toy_options({1, 3}, 5, 2, Accumulate::running);
  options.data = folder.path().string();
  options.steps = 3;
  options.check_gradients = true;
  const TrainingResult result = grad_accum::train(options);
  REQUIRE(result.gradient_differences.size() == 3);
  CHECK(result.steps[2].loss == 0);
  CHECK(result.gradient_differences[2].loss == 0);
  CHECK(result.gradient_differences[2].gradient == 0);
}

}  // namespace ddp
