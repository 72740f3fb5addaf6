#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace ddp {

/// One line of the metrics.
struct StepRecord {
  std::int64_t step;
  int epoch;
  double loss;  ///< mean over the global batch, before the update
  double learning_rate;
  int samples;
  double seconds;  ///< on the device, from the end of the step before to the end of this one
};

struct Evaluation {
  double loss;  ///< mean over the test set
  double
      accuracy;  ///< share of samples whose largest output is the label's; NaN where there are none
};

/// What a run leaves behind; the program prints it and the tests read it.
struct TrainingResult {
  std::vector<StepRecord> steps;
  Evaluation test;
  std::uint64_t parameter_checksum = 0;  ///< FNV-1a over the bits of all parameters
  double samples_per_second = 0;         ///< without the first step, which warms up
  std::size_t peak_device_bytes = 0;     ///< the most that buffers on the device held at one time
  std::string device_name;
  bool simulated = false;    ///< the device is a simulated GPU: times are not those of a GPU
  bool interrupted = false;  ///< ended early by SIGINT or SIGTERM
};

}  // namespace ddp
