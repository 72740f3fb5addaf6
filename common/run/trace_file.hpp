#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "common/cuda/tracer.hpp"
#include "common/run/ranks.hpp"

namespace ddp {

/// The ranks' operations on their devices as Chrome trace events, for https://ui.perfetto.dev and
/// for `course trace`: one JSON object, a process a rank, a row a stream. An event has its kind as
/// category, its time in microseconds since the first rank began, and as arguments its step, the
/// path of ranges around it ("forward/layers.0"), and bytes, floating-point operations and sizes
/// where they are known.
///
/// Each rank notes its own operations; rank 0 has the file, and writes all when the run has ended.
/// The ranks' times are laid together by the clock of the host, which is the same for all on one
/// host. Between hosts clocks differ, by milliseconds where they are kept by NTP: there, compare
/// rows of one rank with each other, not with those of a rank elsewhere.
class TraceFile {
 public:
  struct Process {
    std::string stage;
    std::string device_name;
    bool simulated;
  };
  /// Of all ranks, of which each has an equal share: about 3,200 steps of the default network on
  /// one, and 19 MB of file. `otherData` in the file says how many operations came after these.
  static constexpr std::size_t most_operations = 100'000;

  /// Watches this process from now on; rank 0 creates the file, a trace without events at first.
  /// The device must be selected. `ranks` are to outlive it. Throws InputError where the file
  /// cannot be written.
  TraceFile(const std::string& path, Process process, const Ranks& ranks);
  TraceFile(const TraceFile&) = delete;
  TraceFile& operator=(const TraceFile&) = delete;
  /// If write() has not been called, rank 0 writes what it has seen itself: a failed run has a
  /// trace too. It does not wait for the device, which may hang, nor for other ranks. Where a
  /// failure unwinds nothing, Ranks::at_failure does the same.
  ~TraceFile();

  /// Waits for the device; rank 0 writes. Once. Collective.
  void write();

 private:
  // What rank 0 has to know of a rank before the events.
  struct Seen {
    std::int64_t begin;  // nanoseconds since 1970
    std::uint64_t omitted;
  };

  void write_what_this_rank_saw() noexcept;
  std::string events_since(std::int64_t begin) const;
  void write_file(const std::vector<Seen>& seen, const std::vector<std::string>& events,
                  std::string note);

  const std::string path_;
  const Process process_;
  const Ranks& ranks_;
  cuda::Tracer tracer_;
  const std::int64_t begin_;  // of the tracer's time, in nanoseconds since 1970
  bool written_ = false;
};

}  // namespace ddp
