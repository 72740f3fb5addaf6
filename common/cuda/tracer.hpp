#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "common/cuda/stream.hpp"
#include "common/cuda/trace.hpp"

namespace ddp::cuda {

/// Notes when each operation of a step ran on the device, and in which stream. What is outside a
/// step (no Range around it knows one), such as the first weights or the test at the end, is left
/// out.
///
/// Times come from pairs of events, which are read when both have been reached: the host never
/// waits before read_all(). An event between two kernels costs the device about a microsecond, so a
/// traced run is a little slower than one that is not. Memory is bounded: after `most_operations`
/// the rest is only counted.
class Tracer {
 public:
  struct Record {
    Operation operation;
    const std::string* name;   ///< "sgd_kernel<float>"
    const std::string* range;  ///< "forward/layers.0"
    std::int64_t step;
    int row;         ///< index into rows(), which are streams
    double start;    ///< seconds since the tracer's construction
    double seconds;  ///< that it took
  };

  /// Watches this process from now on. The device must be selected.
  explicit Tracer(std::size_t most_operations);
  Tracer(const Tracer&) = delete;
  Tracer& operator=(const Tracer&) = delete;
  ~Tracer();

  /// When its time began, in nanoseconds since 1970: within 25 us where the host is not too busy.
  std::int64_t begin() const { return begin_; }
  /// Makes records of the operations that have ended.
  void read_done();
  /// The same for all, waiting for the device.
  void read_all();

  const std::vector<Record>& records() const { return records_; }
  /// Names of the streams, in the order in which they were first seen.
  std::vector<std::string> rows() const;
  /// Operations that came after the limit.
  std::size_t omitted() const { return omitted_; }

 private:
  friend class Timed;
  friend void name_stream(cudaStream_t, const char*);
  struct Pending {
    Record record;
    Event* start;
    Event* stop;
  };
  // Each row is timed from one operation's start to the next one's: a float of milliseconds is
  // exact to the microsecond only within some ten seconds.
  struct Row {
    cudaStream_t stream;
    int index;
    std::string name;
    std::deque<Pending> pending;
    Event* last;           // an event whose time is known,
    double last_time = 0;  // and that time
  };

  Event* begin(cudaStream_t stream);
  void end(cudaStream_t stream, Event* start, const Operation& operation);
  void read_reached();
  void read(Row& row);
  Row& row_of(cudaStream_t stream);
  Event* take_event();

  Tracer* const previous_;
  const std::size_t most_operations_;
  std::mutex mutex_;  // more than one thread may enqueue
  std::deque<Event> events_;
  std::vector<Event*> free_events_;
  std::int64_t begin_ = 0;
  Event* base_;
  std::deque<Row> rows_;
  std::vector<Record> records_;
  std::map<const char*, std::string> names_;
  std::set<std::string> ranges_;
  std::size_t accepted_ = 0, omitted_ = 0;
  std::int64_t last_step_ = 0;
};

/// "sgd_kernel<float>" from what compilers call launch<sgd_kernel<float>, ...>, without namespaces;
/// any other text as it is.
std::string kernel_name(std::string_view function);

}  // namespace ddp::cuda
