#include "common/run/program.hpp"

#include <fmt/core.h>

#include <exception>
#include <iostream>
#include <new>
#include <optional>
#include <string>

#include "common/cli/parse_options.hpp"
#include "common/errors.hpp"
#include "common/io/checksum.hpp"

namespace ddp {
namespace {

void print(const TrainingResult& result) {
  const auto row = [](std::string_view name, const std::string& value) {
    fmt::print("{:<20} {}\n", name, value);
  };
  row("device", result.device_name);
  row("steps",
      fmt::format("{}{}", result.steps.size(), result.interrupted ? " (interrupted)" : ""));
  if (!result.steps.empty()) {
    row("first loss", fmt::format("{:.6f}", result.steps.front().loss));
    row("last loss", fmt::format("{:.6f}", result.steps.back().loss));
  }
  row("test loss", fmt::format("{:.6f}", result.test.loss));
  if (result.test.accuracy == result.test.accuracy) {  // NaN where the data has no labels
    row("test accuracy", fmt::format("{:.4f}", result.test.accuracy));
  }
  if (result.samples_per_second > 0) {
    row("samples/s", fmt::format("{:.0f}", result.samples_per_second));
  }
  row("parameter checksum", checksum_text(result.parameter_checksum));
  if (result.simulated) fmt::print("simulated GPU: times are not those of a GPU\n");
}

int fail(const char* message, int code) {
  std::cout << std::flush;
  std::cerr << "error: " << message << std::endl;
  return code;
}

}  // namespace

void print_result(const TrainingResult& result) { print(result); }

int run_program(int argc, char** argv, std::string_view stage,
                TrainingResult (*train)(const Options&)) {
  try {
    const std::optional<Options> options = parse_options(argc, argv, stage, std::cout);
    if (!options) return static_cast<int>(ExitCode::success);
    const TrainingResult result = train(*options);
    print(result);
    return static_cast<int>(result.interrupted ? ExitCode::interrupted : ExitCode::success);
  } catch (const Error& error) {
    return fail(error.what(), static_cast<int>(error.code()));
  } catch (const std::bad_alloc&) {
    return fail("out of memory", 1);
  } catch (const std::exception& error) {
    return fail(error.what(), 1);
  }
}

}  // namespace ddp
