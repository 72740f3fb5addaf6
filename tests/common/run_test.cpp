#include "common/run/run.hpp"

#include <csignal>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Json = nlohmann::json;
using Catch::Matchers::Contains;

// 20 samples in batches of 8: three steps an epoch, with 8, 8 and 4 samples.
struct Setup {
  Setup() {
    write_idx_folder(folder / "data", 20, 10, 2, 2, 3);
    options.data = (folder / "data").string();
    options.layers = {4, 5, 3};
    options.global_batch = 8;
    options.epochs = 20;
    options.metrics = (folder / "metrics.jsonl").string();
    options.dump_samples = (folder / "samples.jsonl").string();
    options.quiet = true;
  }
  std::vector<Json> metrics() const { return json_lines(options.metrics); }
  std::vector<Json> samples() const { return json_lines(options.dump_samples); }
  static std::vector<Json> json_lines(const std::string& path) {
    std::vector<Json> lines;
    for (const std::string& line : read_lines(path)) lines.push_back(Json::parse(line));
    return lines;
  }

  const TemporaryFolder folder;
  Options options;
};

// A loop without a model: what a step leaves in its scalars is the test's choice, and comes from
// pinned memory in stream order, so that the host runs ahead as in a real loop. Flags stay raised.
template <class T>
struct FakeLoop {
  double first_bad_step = std::numeric_limits<double>::infinity();
  unsigned flags = 0;
  double loss_at_bad_step = 0;
  std::int64_t signal_at = 0;
  int signal = SIGINT;

  TrainingResult train(const Options& options) const {
    Run<T> run("fake", options);
    const cuda::Stream stream;
    const cuda::DeviceBuffer<StepScalars<T>> scalars(1);
    const cuda::PinnedBuffer<StepScalars<T>> source(1000);
    for (const Step& step : run.steps()) {
      const Batch<T> batch = run.load(step, stream);
      StepScalars<T>& left = source[static_cast<std::size_t>(step.number)];
      left = {static_cast<T>(static_cast<double>(step.number) * batch.count), 0, 0, 0, 0, 0};
      if (static_cast<double>(step.number) >= first_bad_step) left.flags = flags;
      if (static_cast<double>(step.number) == first_bad_step && loss_at_bad_step != 0) {
        left.loss_sum = static_cast<T>(loss_at_bad_step);
      }
      cuda::copy_async(scalars.data(), &left, 1, stream);
      if (step.number == signal_at) std::raise(signal);
      run.record(step, scalars.data(), 0.5 / static_cast<double>(step.number), stream);
    }
    const std::vector<T> values = {1, -2, 3};
    const cuda::DeviceBuffer<T> device(3);
    cuda::upload<T>(device.data(), values, stream);
    const std::span<const T> parts[] = {{device.data(), 1}, {device.data() + 1, 2}};
    return run.finish(parts, {2.5, 7.5, 10}, stream);
  }
};

TEST_CASE("Run: each loss arrives at its own step, in the result and in the metrics") {
  const Setup setup;
  const TrainingResult result = FakeLoop<double>{}.train(setup.options);
  REQUIRE(result.steps.size() == 60);
  const std::vector<Json> lines = setup.metrics();
  REQUIRE(lines.size() == 62);
  double seconds = 0;
  double samples = 0;
  for (std::size_t index = 0; index < 60; ++index) {
    const StepRecord& record = result.steps[index];
    const auto number = static_cast<std::int64_t>(index) + 1;
    INFO("step " << number);
    CHECK(record.step == number);
    CHECK(record.epoch == static_cast<int>(index / 3) + 1);
    CHECK(record.samples == (number % 3 == 0 ? 4 : 8));
    CHECK(record.loss == static_cast<double>(number));  // the sum over the samples, divided
    CHECK(record.learning_rate == 0.5 / static_cast<double>(number));
    CHECK(record.seconds >= 0);
    const Json& line = lines[index + 1];
    CHECK(line["event"] == "step");
    CHECK(line["step"] == number);
    CHECK(line["epoch"] == record.epoch);
    CHECK(line["loss"] == record.loss);
    CHECK(line["learning_rate"] == record.learning_rate);
    CHECK(line["samples"] == record.samples);
    CHECK(line["seconds"] == record.seconds);
    if (index > 0) {
      seconds += record.seconds;
      samples += record.samples;
    }
  }
  CHECK(result.samples_per_second == Approx(samples / seconds));
  CHECK_FALSE(result.interrupted);
  CHECK(result.test.accuracy == 0.75);

  CHECK(lines.front()["event"] == "run");
  CHECK(lines.front()["stage"] == "fake");
  CHECK(lines.front()["world_size"] == 1);
  CHECK(lines.front()["device"] == result.device_name);
  CHECK(lines.front()["simulated"] == result.simulated);
  CHECK(lines.front()["parameters"] == 4 * 5 + 5 + 5 * 3 + 3);
  CHECK(lines.front()["train_samples"] == 20);
  CHECK(lines.front()["input_std"].get<double>() > 0);
  CHECK(lines.back()["event"] == "end");
  CHECK(lines.back()["test_accuracy"] == 0.75);
  CHECK(lines.back()["test_loss"] == 0.25);
}

TEST_CASE("Run: the checksum is FNV-1a over the bits of the parameters in order") {
  const Setup setup;
  std::uint64_t expected = 0xcbf29ce484222325;
  const float values[3] = {1, -2, 3};
  for (const std::byte byte : std::as_bytes(std::span(values))) {
    expected = (expected ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
  CHECK(FakeLoop<float>{}.train(setup.options).parameter_checksum == expected);
}

TEST_CASE("Run: --steps is the total and wins over --epochs; 0 does nothing") {
  Setup setup;
  setup.options.steps = 4;
  CHECK(FakeLoop<float>{}.train(setup.options).steps.size() == 4);
  setup.options.steps = 100;  // more than 20 epochs have
  CHECK(FakeLoop<float>{}.train(setup.options).steps.size() == 100);
  setup.options.steps = 0;
  CHECK(FakeLoop<float>{}.train(setup.options).steps.empty());
  CHECK(setup.metrics().size() == 2);
}

TEST_CASE("Run: dumped sample ids are those of each step, every sample once an epoch") {
  const Setup setup;
  FakeLoop<float>{}.train(setup.options);
  const std::vector<Json> lines = setup.samples();
  REQUIRE(lines.size() == 60);
  for (std::size_t epoch = 0; epoch < 20; ++epoch) {
    std::vector<int> seen(20, 0);
    for (std::size_t index = 3 * epoch; index < 3 * epoch + 3; ++index) {
      CHECK(lines[index]["step"] == index + 1);
      CHECK(lines[index]["rank"] == 0);
      for (const int id : lines[index]["ids"]) ++seen.at(static_cast<std::size_t>(id));
    }
    CHECK(seen == std::vector<int>(20, 1));
  }
}

TEST_CASE(
    "FA-03: a raised flag ends the run; the message names the first bad step and what it was") {
  struct Row {
    unsigned flags;
    const char* text;
  };
  for (const Row& row : {Row{non_finite_loss, "non-finite loss in step 5"},
                         Row{non_finite_gradient, "non-finite gradient in step 5"},
                         Row{non_finite_update, "non-finite update"},
                         Row{non_finite_loss | non_finite_gradient, "non-finite loss, gradient"}}) {
    for (const int bad_step : {5, 60}) {
      const Setup setup;
      FakeLoop<float> loop;
      loop.first_bad_step = bad_step;
      loop.flags = row.flags;
      const std::string message = error_of<NonFiniteError>([&] { loop.train(setup.options); });
      const std::string expected = row.text;
      if (bad_step == 5) CHECK_THAT(message, Contains(expected));
      CHECK_THAT(message, Contains("non-finite") && Contains("step " + std::to_string(bad_step)) &&
                              Contains("rank 0"));
      // The run event and the good steps, no more.
      const std::vector<Json> lines = setup.metrics();
      REQUIRE(lines.size() == static_cast<std::size_t>(bad_step));
      if (bad_step > 1) CHECK(lines.back()["step"] == bad_step - 1);
    }
  }
}

TEST_CASE("FA-03: a loss that is not finite ends the run even if no kernel raised a flag") {
  for (const double loss :
       {std::numeric_limits<double>::quiet_NaN(), std::numeric_limits<double>::infinity()}) {
    const Setup setup;
    FakeLoop<float> loop;
    loop.first_bad_step = 7;
    loop.loss_at_bad_step = loss;
    CHECK_THAT(error_of<NonFiniteError>([&] { loop.train(setup.options); }),
               Contains("non-finite loss in step 7"));
    CHECK(setup.metrics().size() == 7);  // not the steps after it either
  }
}

TEST_CASE("DA-03: a label that a kernel finds out of range is an input error with the step") {
  const Setup setup;
  FakeLoop<float> loop;
  loop.first_bad_step = 5;
  loop.flags = label_out_of_range;
  CHECK_THAT(error_of<InputError>([&] { loop.train(setup.options); }),
             Contains("label out of range") && Contains("step 5"));
}

TEST_CASE("Run: SIGINT and SIGTERM end it after the current step, with all results written") {
  for (const int signal : {SIGINT, SIGTERM}) {
    const Setup setup;
    FakeLoop<float> loop;
    loop.signal_at = 4;
    loop.signal = signal;
    const TrainingResult result = loop.train(setup.options);
    CHECK(result.interrupted);
    CHECK(result.steps.size() == 4);
    const std::vector<Json> lines = setup.metrics();
    REQUIRE(lines.size() == 6);
    CHECK(lines.back()["event"] == "end");
    CHECK(lines.back()["interrupted"] == true);
    struct sigaction now {};
    sigaction(signal, nullptr, &now);
    CHECK(now.sa_handler != SIG_IGN);
    // The next run is not stopped by the old signal, nor is one that is over when it comes.
    CHECK(FakeLoop<float>{}.train(setup.options).steps.size() == 60);
    loop.signal_at = 60;
    CHECK_FALSE(loop.train(setup.options).interrupted);
  }
}

TEST_CASE("Run: a second signal finds the default handler, and afterwards all is as before") {
  const Setup setup;
  struct sigaction before {
  }, during{}, second{}, after{};
  sigaction(SIGINT, nullptr, &before);
  {
    const Run<float> run("fake", setup.options);
    sigaction(SIGINT, nullptr, &during);
    std::raise(SIGINT);
    sigaction(SIGINT, nullptr, &second);
  }
  sigaction(SIGINT, nullptr, &after);
  CHECK(during.sa_handler != before.sa_handler);
  CHECK(second.sa_handler == SIG_DFL);
  CHECK(after.sa_handler == before.sa_handler);
}

TEST_CASE(
    "FA-01 (a) (b): a planted error passes through, and the steps before it are in the metrics") {
  const Setup setup;
  {
    const ScopedVariable fault("DDP_FAULT", "0:3:throw");
    CHECK_THAT(error_of<std::runtime_error>([&] { FakeLoop<float>{}.train(setup.options); }),
               Contains("rank 0") && Contains("step 3"));
    CHECK(setup.metrics().size() == 3);
  }
  {
    const ScopedVariable fault("DDP_FAULT", "0:30:return");
    CHECK_THAT(error_of<InputError>([&] { FakeLoop<float>{}.train(setup.options); }),
               Contains("rank 0") && Contains("step 30"));
    CHECK(setup.metrics().size() == 30);
  }
  const ScopedVariable fault("DDP_FAULT", "0:3:shout");
  CHECK_THAT(error_of<OptionError>([&] { FakeLoop<float>{}.train(setup.options); }),
             Contains("DDP_FAULT"));
}

TEST_CASE("EN-03 (b): a device that does not exist is refused with its index and their number") {
  Setup setup;
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  for (const int index : {-1, devices, 1000}) {
    setup.options.device = index;
    CHECK_THAT(error_of<DeviceError>([&] { Run<float>("fake", setup.options); }),
               Contains("device " + std::to_string(index) + " was asked for") &&
                   Contains(std::to_string(devices) + " device"));
  }
}

TEST_CASE("Run: mistakes show before the data is read: first the device, then the files") {
  Setup setup;
  setup.options.data = (setup.folder / "nowhere").string();
  CHECK_THAT(error_of<InputError>([&] { Run<float>("fake", setup.options); }),
             Contains("nowhere: No such file"));
  for (std::string Options::*file : {&Options::metrics, &Options::dump_samples}) {
    Setup wrong;
    wrong.options.data = setup.options.data;
    wrong.options.*file = (wrong.folder / "missing/file.jsonl").string();
    CHECK_THAT(error_of<InputError>([&] { Run<float>("fake", wrong.options); }),
               Contains("missing/file.jsonl: cannot be written: No such file or directory"));
    wrong.options.device = -1;
    CHECK_THAT(error_of<DeviceError>([&] { Run<float>("fake", wrong.options); }),
               Contains("device -1"));
  }
}

TEST_CASE("Run: a disk that is full ends the run with the path") {
  Setup setup;
  setup.options.metrics = "/dev/full";
  CHECK_THAT(error_of<InputError>([&] { FakeLoop<float>{}.train(setup.options); }),
             Contains("/dev/full: cannot be written: No space left on device"));
}

TEST_CASE("Run: both scalars and both losses get what they need") {
  Setup setup;
  setup.options.loss = LossKind::mse;
  CHECK(FakeLoop<double>{}.train(setup.options).steps.size() == 60);
  CHECK(FakeLoop<float>{}.train(setup.options).steps.size() == 60);
  setup.options.global_batch = 1000;  // larger than the data set: one short batch an epoch
  const TrainingResult result = FakeLoop<float>{}.train(setup.options);
  CHECK(result.steps.size() == 20);
  CHECK(result.steps.front().samples == 20);
}

}  // namespace
}  // namespace ddp
