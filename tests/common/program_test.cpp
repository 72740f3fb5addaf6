#include <algorithm>
#include <string>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

// fake_program on a small folder of data, with five steps unless `arguments` say otherwise.
ProcessResult run(const std::vector<std::string>& arguments,
                  const std::vector<std::string>& variables = {}) {
  const TemporaryFolder folder;
  write_idx_folder(folder.path(), 20, 10, 2, 2, 3);
  std::vector<std::string> all = {"--data", folder.path().string(), "--layers", "4-3"};
  all.insert(all.end(), arguments.begin(), arguments.end());
  if (std::find(all.begin(), all.end(), "--steps") == all.end()) {
    all.insert(all.end(), {"--steps", "5"});
  }
  return run_process(program_of_this_build("fake_program"), all, variables);
}

TEST_CASE("A run that ends well prints its table and returns 0") {
  const ProcessResult result = run({});
  INFO(result.err);
  CHECK(result.exit_code == 0);
  for (const char* text :
       {"device", "steps                5\n", "first loss           0.000000",
        "last loss            0.000000", "test loss            0.250000",
        "test accuracy        0.7500", "samples/s", "parameter checksum   cbf29ce484222325"}) {
    CHECK_THAT(result.out, Contains(text));
  }
  const bool simulated = result.out.find("Simulated") != std::string::npos;
  CHECK(simulated == (result.out.find("times are not those of a GPU") != std::string::npos));
  CHECK_THAT(result.err, Contains("step 5/5"));
  CHECK_THAT(result.err, !Contains("\r") && !Contains("\x1b"));  // no terminal
  CHECK(run({"--quiet"}).err.empty());
  CHECK_THAT(run({"--steps", "0"}).out, Contains("steps                0"));
}

TEST_CASE("Each kind of error has its exit code and is one line on stderr") {
  struct Row {
    const char* seed;
    int exit_code;
    const char* line;
  };
  for (const Row& row :
       {Row{"2", 2, "error: a bad option\n"}, Row{"3", 3, "error: a bad file\n"},
        Row{"4", 4, "error: a non-finite loss\n"}, Row{"6", 6, "error: a bad device\n"},
        Row{"7", 1, "error: something else\n"}, Row{"8", 1, "error: out of memory\n"}}) {
    const ProcessResult result = run({"--seed", row.seed});
    CHECK(result.exit_code == row.exit_code);
    CHECK(result.err == row.line);
    CHECK(result.out.empty());
  }
}

TEST_CASE("A bad option, a bad file and a bad device by the real path") {
  const ProcessResult option = run({"--lr", "fast"});
  CHECK(option.exit_code == 2);
  CHECK(option.err.starts_with("error: --lr is 'fast'; it must be a finite number above 0"));
  const ProcessResult file = run({"--metrics", "/nowhere/metrics.jsonl"});
  CHECK(file.exit_code == 3);
  CHECK(file.err ==
        "error: /nowhere/metrics.jsonl: cannot be written: No such file or directory\n");
  const ProcessResult device = run({"--device", "-1"});
  CHECK(device.exit_code == 6);
  CHECK(device.err.starts_with("error: device -1 was asked for"));
  const ProcessResult fault = run({}, {"DDP_FAULT=0:3"});
  CHECK(fault.exit_code == 2);
  CHECK_THAT(fault.err, Contains("DDP_FAULT"));
}

TEST_CASE("EN-03 (a) (c): without a visible device the program says so and how to go on") {
  const ProcessResult result = run({}, {"SIMGPU_DEVICES=0", "CUDA_VISIBLE_DEVICES="});
  CHECK(result.exit_code == 6);
  CHECK(result.out.empty());
  CHECK(result.err.starts_with("error: no CUDA device is visible"));
  CHECK_THAT(result.err, Contains("cmake --preset sim"));
}

TEST_CASE("SIGINT: the step is finished, results are printed, the exit code is 130") {
  const ProcessResult result = run({"--seed", "9"});
  CHECK(result.exit_code == 130);
  CHECK_THAT(result.out,
             Contains("steps                3 (interrupted)") && Contains("parameter checksum"));
}

TEST_CASE("FA-01 (c): a planted kill ends the program by its signal, steps are in the metrics") {
  const TemporaryFolder folder;
  const std::string metrics = (folder / "metrics.jsonl").string();
  const ProcessResult result = run({"--metrics", metrics}, {"DDP_FAULT=0:5:kill"});
  CHECK(result.exit_code == 137);
  CHECK(read_lines(metrics).size() >= 1);
}

TEST_CASE("--help and --version return 0 and need no data") {
  const ProcessResult help = run_process(program_of_this_build("fake_program"), {"--help"});
  CHECK(help.exit_code == 0);
  CHECK_THAT(help.out, Contains("--global-batch"));
  CHECK(help.err.empty());
  CHECK(run_process(program_of_this_build("fake_program"), {"--version"}).exit_code == 0);
}

}  // namespace
}  // namespace ddp
