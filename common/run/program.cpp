#include "common/run/program.hpp"

#include <fmt/core.h>

#include <algorithm>
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

// What a library sends for a collective is its own affair; how often it was asked to is not.
void print_collectives(const Traffic& rank) {
  if (rank.collectives == 0) return;
  fmt::print("{:<20} {} of {} bytes in all, on each rank\n", "all-reduces", rank.collectives,
             rank.collective_bytes);
}

// One line a rank: what it sent and received in all steps, counted, and what it should be.
void print_traffic(const TrainingResult& result) {
  if (result.traffic.size() < 2 || result.traffic.front().messages_sent == 0) return;
  const bool modelled = result.traffic.front().modelled_seconds > 0;
  fmt::print("\n  rank  messages sent      bytes sent  bytes received      by formula{}\n",
             modelled ? "  modelled s" : "");
  for (std::size_t rank = 0; rank < result.traffic.size(); ++rank) {
    const Traffic& counted = result.traffic[rank];
    std::string formula = "-";
    if (!result.traffic_by_formula.empty()) {
      const Traffic& expected = result.traffic_by_formula[rank];
      const bool equal = counted.messages_sent == expected.messages_sent &&
                         counted.bytes_sent == expected.bytes_sent &&
                         counted.bytes_received == expected.bytes_received;
      formula = equal ? "equal" : fmt::format("{} sent", expected.bytes_sent);
    }
    fmt::print("  {:>4}  {:>13}  {:>14}  {:>14}  {:>14}", rank, counted.messages_sent,
               counted.bytes_sent, counted.bytes_received, formula);
    if (modelled) fmt::print("  {:>10.4f}", counted.modelled_seconds);
    fmt::print("\n");
  }
}

// With halves: where it is not 1 all the time.
std::string loss_scale_text(const std::vector<StepRecord>& steps) {
  const auto unscaled = [](const StepRecord& step) { return step.loss_scale <= 1; };
  if (std::all_of(steps.begin(), steps.end(), unscaled)) return {};
  const auto skipped = [](const StepRecord& step) { return step.skipped; };
  return fmt::format("{} in the last step; {} steps skipped", steps.back().loss_scale,
                     std::count_if(steps.begin(), steps.end(), skipped));
}

// Where it changes.
std::string rates_text(const std::vector<StepRecord>& steps) {
  const auto less = [](const StepRecord& a, const StepRecord& b) {
    return a.learning_rate < b.learning_rate;
  };
  const auto least = std::min_element(steps.begin(), steps.end(), less);
  const auto most = std::max_element(steps.begin(), steps.end(), less);
  if (steps.empty() || least->learning_rate == most->learning_rate) return {};
  return fmt::format("{:g} in step {}, at most {:g} (step {}), {:g} in step {}",
                     steps.front().learning_rate, steps.front().step, most->learning_rate,
                     most->step, steps.back().learning_rate, steps.back().step);
}

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
  if (const std::string rates = rates_text(result.steps); !rates.empty())
    row("learning rate", rates);
  const double test_loss = result.test.loss;
  const bool tiny = 0 < test_loss && test_loss < 1e-4;
  row("test loss", tiny ? fmt::format("{:.2e}", test_loss) : fmt::format("{:.6f}", test_loss));
  if (const std::string scale = loss_scale_text(result.steps); !scale.empty())
    row("loss scale", scale);
  if (result.test.accuracy == result.test.accuracy) {  // NaN where the data has no labels
    row("test accuracy", fmt::format("{:.4f}", result.test.accuracy));
  }
  if (result.samples_per_second > 0) {
    row("samples/s", fmt::format("{:.0f}", result.samples_per_second));
  }
  row("peak device memory",
      fmt::format("{:.1f} MiB", static_cast<double>(result.peak_device_bytes) / (1 << 20)));
  row("parameter checksum", checksum_text(result.parameter_checksum));
  if (!result.traffic.empty()) print_collectives(result.traffic.front());
  print_traffic(result);
  if (result.simulated) fmt::print("simulated GPU: times are not those of a GPU\n");
}

int fail(const char* message, int code) {
  std::cout << std::flush;
  std::cerr << "error: " + std::string(message) + "\n";  // at once: launchers mix what ranks write
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
