#include "common/run/loader.hpp"

#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "common/data/batch_sampler.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

constexpr int global_batch = 8;
constexpr int pixels = 6;
constexpr std::int64_t steps = 24;

TrainAndTest small_data(LossKind loss) {
  const TemporaryFolder folder;
  write_idx_folder(folder.path(), 53, 5, 2, 3, 7);
  Options options;
  options.data = folder.path().string();
  options.layers = {pixels, 7};
  options.loss = loss;
  return load_data(options);
}

// Makes the stream late, so that the host and the copies run ahead of it as far as they dare.
void delay(cudaStream_t stream, int milliseconds) {
  static constexpr auto sleep = [](void* duration) {
    std::this_thread::sleep_for(
        std::chrono::milliseconds(reinterpret_cast<std::intptr_t>(duration)));
  };
  cuda::check(cudaLaunchHostFunc(
      stream, sleep, reinterpret_cast<void*>(static_cast<std::intptr_t>(milliseconds))));
}

struct Seen {
  std::vector<double> inputs;
  std::vector<std::int32_t> labels;
  std::vector<double> targets;
};

// Loads every step's batch; the compute stream, which is `late` milliseconds late at each step,
// copies what it finds to a place of its own. Returns what it found.
std::vector<Seen> run_loader(const Dataset& data, LossKind loss, int late) {
  BatchSampler sampler(data.size(), global_batch, 1, true);
  const cuda::Stream compute;
  Loader<double> loader(data, loss, global_batch, std::nullopt);
  const auto step_at = [&](std::int64_t number) {
    return MicroBatch{number, 0, sampler.batch(number)};
  };
  std::vector<cuda::DeviceBuffer<double>> inputs, targets;
  std::vector<cuda::DeviceBuffer<std::int32_t>> labels;
  for (std::int64_t number = 1; number <= steps; ++number) {
    inputs.emplace_back(global_batch * pixels);
    targets.emplace_back(global_batch * 7);
    labels.emplace_back(global_batch);
  }
  for (std::int64_t number = 1; number <= steps; ++number) {
    const MicroBatch step = step_at(number);
    std::optional<MicroBatch> next;
    if (number < steps) next = step_at(number + 1);
    const Batch<double> batch = loader.load(step, next, compute);
    REQUIRE(batch.count == static_cast<int>(step.samples.size()));
    REQUIRE((batch.labels != nullptr) == (loss == LossKind::cross_entropy));
    REQUIRE((batch.targets != nullptr) == (loss == LossKind::mse));
    const auto count = static_cast<std::size_t>(batch.count);
    const auto index = static_cast<std::size_t>(number - 1);
    if (late > 0) delay(compute, late);
    cuda::copy_async(inputs[index].data(), batch.inputs, count * pixels, compute);
    if (batch.labels) cuda::copy_async(labels[index].data(), batch.labels, count, compute);
    if (batch.targets) cuda::copy_async(targets[index].data(), batch.targets, count * 7, compute);
  }
  std::vector<Seen> seen;
  for (std::int64_t number = 1; number <= steps; ++number) {
    const auto index = static_cast<std::size_t>(number - 1);
    const std::size_t count = sampler.batch(number).size();
    Seen one{cuda::download(inputs[index].data(), count * pixels, compute), {}, {}};
    if (loss == LossKind::cross_entropy) {
      one.labels = cuda::download(labels[index].data(), count, compute);
    } else {
      one.targets = cuda::download(targets[index].data(), count * 7, compute);
    }
    seen.push_back(std::move(one));
  }
  return seen;
}

void require_right(const Dataset& data, LossKind loss, const std::vector<Seen>& seen) {
  BatchSampler sampler(data.size(), global_batch, 1, true);
  for (std::int64_t number = 1; number <= steps; ++number) {
    INFO("step " << number);
    const Seen& one = seen[static_cast<std::size_t>(number - 1)];
    const auto samples = sampler.batch(number);
    REQUIRE(one.inputs.size() == samples.size() * pixels);
    for (std::size_t row = 0; row < samples.size(); ++row) {
      // The formula of write_idx_folder.
      for (std::uint32_t pixel = 0; pixel < pixels; ++pixel) {
        const double byte = (7 * samples[row] + pixel) % 256;
        const double expected = (byte / 255 - data.input_mean()) / data.input_std();
        REQUIRE(std::abs(one.inputs[row * pixels + pixel] - expected) < 1e-14);
      }
      const std::uint32_t label = samples[row] % 7;
      if (loss == LossKind::cross_entropy) {
        REQUIRE(one.labels[row] == static_cast<std::int32_t>(label));
      } else {
        for (std::uint32_t column = 0; column < 7; ++column) {
          REQUIRE(one.targets[row * 7 + column] == (column == label ? 1 : 0));
        }
      }
    }
  }
}

TEST_CASE("Each step finds its own batch, across epochs and short batches") {
  for (const LossKind loss : {LossKind::cross_entropy, LossKind::mse}) {
    const TrainAndTest data = small_data(loss);
    require_right(data.train, loss, run_loader(data.train, loss, 0));
  }
}

TEST_CASE("A compute stream that is late still finds its own batch") {
  for (const LossKind loss : {LossKind::cross_entropy, LossKind::mse}) {
    const TrainAndTest data = small_data(loss);
    require_right(data.train, loss, run_loader(data.train, loss, 3));
  }
}

TEST_CASE("A step that was not announced is loaded all the same, and one that is loaded again") {
  const TrainAndTest data = small_data(LossKind::cross_entropy);
  BatchSampler sampler(data.train.size(), global_batch, 1, false);
  const cuda::Stream compute;
  Loader<float> loader(data.train, LossKind::cross_entropy, global_batch, std::nullopt);
  for (const std::int64_t number : {1, 4, 4, 2, 7}) {
    const MicroBatch step{number, 0, sampler.batch(number)};
    const Batch<float> batch = loader.load(step, std::nullopt, compute);
    const auto labels =
        cuda::download(batch.labels, static_cast<std::size_t>(batch.count), compute);
    for (std::size_t row = 0; row < labels.size(); ++row) {
      CHECK(labels[row] == static_cast<std::int32_t>(step.samples[row] % 7));
    }
  }
}

TEST_CASE("DDP_FAULT nan: the first input of that step, and no other number, is NaN") {
  const TrainAndTest data = small_data(LossKind::cross_entropy);
  BatchSampler sampler(data.train.size(), global_batch, 1, true);
  const cuda::Stream compute;
  Loader<float> loader(data.train, LossKind::cross_entropy, global_batch,
                       parse_fault("0:3:nan", 1));
  for (std::int64_t number = 1; number <= 5; ++number) {
    const MicroBatch step{number, 0, sampler.batch(number)};
    std::optional<MicroBatch> next = MicroBatch{number + 1, 0, sampler.batch(number + 1)};
    const Batch<float> batch = loader.load(step, next, compute);
    const auto inputs =
        cuda::download(batch.inputs, static_cast<std::size_t>(batch.count) * pixels, compute);
    for (std::size_t index = 0; index < inputs.size(); ++index) {
      CHECK(std::isnan(inputs[index]) == (number == 3 && index == 0));
    }
  }
}

TEST_CASE("A loader that is given up with copies under way ends in peace") {
  const TrainAndTest data = small_data(LossKind::cross_entropy);
  BatchSampler sampler(data.train.size(), global_batch, 1, true);
  for (int repeat = 0; repeat < 20; ++repeat) {
    const cuda::Stream compute;
    Loader<float> loader(data.train, LossKind::cross_entropy, global_batch, std::nullopt);
    delay(compute, 1);
    const std::optional<MicroBatch> next = MicroBatch{2, 0, sampler.batch(2)};
    loader.load({1, 0, sampler.batch(1)}, next, compute);
  }
}

}  // namespace
}  // namespace ddp
