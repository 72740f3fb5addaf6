#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "common/cli/options.hpp"
#include "common/io/output_file.hpp"
#include "common/io/training_result.hpp"

namespace ddp {

/// What the first line of the metrics says besides the options.
struct RunDescription {
  std::string stage;
  int world_size = 1;
  std::string device_name;
  bool simulated = false;
  std::int64_t parameter_count = 0;
  int cuda_runtime_version = 0;  ///< as CUDA writes it: 13000 is 13.0
  int train_samples = 0;
  int test_samples = 0;
  double input_mean = 0;
  double input_std = 1;
};

/// Metrics as JSON lines: one `run` event, one `step` event a step, one `end` event; with
/// --check-gradients also one `check` event a step. Numbers have all the digits that it takes to
/// read them back to the bit; what is no number is null.
class MetricsFile {
 public:
  explicit MetricsFile(const std::string& path) : file_(path) {}
  void run(const RunDescription& description, const Options& options);
  void step(const StepRecord& record);
  void gradient_difference(const GradientDifference& difference);
  void end(const TrainingResult& result);

 private:
  OutputFile file_;
};

/// JSON lines with the sample ids of each step.
class SampleDump {
 public:
  explicit SampleDump(const std::string& path) : file_(path) {}
  void step(std::int64_t step, int rank, std::span<const std::uint32_t> samples);

 private:
  OutputFile file_;
};

}  // namespace ddp
