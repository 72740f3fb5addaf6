#include "common/io/metrics.hpp"

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Json = nlohmann::json;
using Catch::Matchers::Contains;

TEST_CASE("Metrics: one run event, a step event a step, one end event") {
  const TemporaryFolder folder;
  const std::string path = (folder / "metrics.jsonl").string();
  Options options;
  options.learning_rate = 0.1;
  options.loss_scale.ceiling = 65536;
  options.check_gradients = true;
  MetricsFile metrics(path);
  metrics.run({.stage = "01_single_gpu",
               .world_size = 1,
               .device_name = "Simulated GPU",
               .simulated = true,
               .parameter_count = 535818,
               .cuda_runtime_version = 13000,
               .train_samples = 60000,
               .test_samples = 10000,
               .input_mean = 0.1,
               .input_std = 0.3},
              options);
  metrics.step({1, 1, 2.5, 0.1, 256, 0.0078125});
  metrics.step({2, 1, 0.1 + 0.2, 1.0 / 3, 96, 1e-7});

  // Each line is complete as soon as it is written.
  REQUIRE(read_lines(path).size() == 3);

  TrainingResult result;
  result.test = {0.5, 0.875};
  result.parameter_checksum = 0xab;
  result.samples_per_second = 40000.5;
  result.traffic = {{3, 1200, 2, 800}};
  result.peak_device_bytes = 5'000'000'000;
  metrics.end(result);

  const std::vector<std::string> lines = read_lines(path);
  REQUIRE(lines.size() == 4);
  const Json run = Json::parse(lines[0]);
  CHECK(run["event"] == "run");
  CHECK(run["stage"] == "01_single_gpu");
  CHECK(run["world_size"] == 1);
  CHECK(run["device"] == "Simulated GPU");
  CHECK(run["simulated"] == true);
  CHECK(run["parameters"] == 535818);
  CHECK(run["versions"]["cuda_runtime"] == 13000);
  CHECK(run["versions"].contains("ddp_from_scratch"));
  CHECK(run["input_mean"] == 0.1);
  CHECK(run["input_std"] == 0.3);
  CHECK(run["options"]["data"] == "fashion-mnist");
  CHECK(run["options"]["layers"] == Json({784, 512, 256, 10}));
  CHECK(run["options"]["activation"] == "relu");
  CHECK(run["options"]["loss"] == "cross-entropy");
  CHECK(run["options"]["precision"] == "fp32");
  CHECK(run["options"]["global_batch"] == 256);
  CHECK(run["options"]["steps"].is_null());
  CHECK(run["options"]["learning_rate"] == 0.1);
  CHECK(run["options"]["seed"] == 1);
  CHECK(run["options"]["bucket_mb"] == 25);
  CHECK(run["options"]["overlap"] == true);
  CHECK(run["options"]["loss_scale"] == "dynamic");
  CHECK(run["options"]["check_gradients"] == true);
  CHECK(run["options"]["no_broadcast"] == false);

  CHECK(lines[1] ==
        R"({"event":"step","step":1,"epoch":1,"loss":2.5,"learning_rate":0.1,"samples":256,)"
        R"("seconds":0.0078125})");
  const Json second = Json::parse(lines[2]);
  CHECK(second["loss"].get<double>() == 0.1 + 0.2);  // 0.30000000000000004: all digits
  CHECK(second["learning_rate"].get<double>() == 1.0 / 3);
  CHECK(second["seconds"].get<double>() == 1e-7);

  CHECK(lines[3] == R"({"event":"end","test_accuracy":0.875,"test_loss":0.5,)"
                    R"("parameter_checksum":"00000000000000ab","samples_per_second":40000.5,)"
                    R"("traffic":[{"messages_sent":3,"bytes_sent":1200,"messages_received":2,)"
                    R"("bytes_received":800}],"peak_device_bytes":5000000000,)"
                    R"("interrupted":false})");
}

TEST_CASE("Metrics: an accuracy that does not exist is null, odd bytes in a name do no harm") {
  const TemporaryFolder folder;
  MetricsFile metrics((folder / "metrics.jsonl").string());
  Options options;
  options.data = "\xff\"\n";
  metrics.run({.stage = "01", .device_name = ""}, options);
  TrainingResult result;
  result.test = {0.5, std::numeric_limits<double>::quiet_NaN()};
  metrics.end(result);
  const std::vector<std::string> lines = read_lines(folder / "metrics.jsonl");
  REQUIRE(lines.size() == 2);
  CHECK_NOTHROW(Json::parse(lines[0]));
  CHECK(Json::parse(lines[1])["test_accuracy"].is_null());
}

TEST_CASE("Sample ids are dumped as JSON lines") {
  const TemporaryFolder folder;
  SampleDump dump((folder / "samples.jsonl").string());
  const std::vector<std::uint32_t> ids = {7, 0, 59999};
  dump.step(1, 0, ids);
  dump.step(2, 3, {});
  CHECK(read_lines(folder / "samples.jsonl") ==
        std::vector<std::string>{R"({"step":1,"rank":0,"ids":[7,0,59999]})",
                                 R"({"step":2,"rank":3,"ids":[]})"});
}

TEST_CASE("A place that cannot be written is refused with path and reason") {
  const TemporaryFolder folder;
  const std::string nowhere = (folder / "missing/metrics.jsonl").string();
  CHECK(error_of<InputError>([&] { MetricsFile metrics(nowhere); }) ==
        nowhere + ": cannot be written: No such file or directory");
  CHECK_THAT(error_of<InputError>([&] { MetricsFile metrics(folder.path().string()); }),
             Contains("Is a directory"));
  CHECK(error_of<InputError>([&] { OutputFile("/dev/full").write_line("text"); }) ==
        "/dev/full: cannot be written: No space left on device");
}

}  // namespace
}  // namespace ddp
