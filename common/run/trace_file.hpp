#pragma once

#include <string>

#include "common/cuda/tracer.hpp"
#include "common/io/output_file.hpp"

namespace ddp {

/// A run's operations on the device as Chrome trace events, for https://ui.perfetto.dev and for
/// `./course trace`: one JSON object, a process a rank, a row a stream. An event has its kind as
/// category, `ts` and `dur` in microseconds since the run began, and in `args` the step, the path
/// of ranges around it ("forward/layers.0"), and bytes, floating-point operations and sizes where
/// they are known.
class TraceFile {
 public:
  struct Process {
    std::string stage;
    int rank;
    std::string device_name;
    bool simulated;
  };
  /// About 2,800 steps of the default network, and 25 MB of file. `otherData` in the file says how
  /// many operations came after these.
  static constexpr std::size_t most_operations = 100'000;

  /// Creates the file and watches this process from now on. The device must be selected. Throws
  /// InputError where the file cannot be written.
  TraceFile(const std::string& path, Process process);
  /// If write() has not been called, writes what has been seen: a failed run has a trace too. It
  /// does not wait for the device, which may hang.
  ~TraceFile();

  /// Waits for the device and writes. Once.
  void write();

 private:
  void write_records();

  OutputFile file_;
  const Process process_;
  const double begin_;  // seconds since 1970, so that traces of several ranks can be laid together
  cuda::Tracer tracer_;
  bool written_ = false;
};

}  // namespace ddp
