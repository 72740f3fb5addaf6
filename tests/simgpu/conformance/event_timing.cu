// Events carry a time. Only lower bounds are tested: how fast a device is, is no matter of rules.
#include <cmath>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

// An event with flags; the class Event of the project has none.
struct FlaggedEvent {
  explicit FlaggedEvent(unsigned flags) { cuda::check(cudaEventCreateWithFlags(&event, flags)); }
  FlaggedEvent(const FlaggedEvent&) = delete;
  FlaggedEvent& operator=(const FlaggedEvent&) = delete;
  ~FlaggedEvent() { cudaEventDestroy(event); }
  cudaEvent_t event = nullptr;
};

TEST_CASE("the time between two events covers the work between them", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event start, middle, stop;
  start.record(stream);
  keep_busy(stream, 20);
  middle.record(stream);
  keep_busy(stream, 10);
  stop.record(stream);
  stop.synchronize();
  // Half a millisecond of slack: the clocks of host and device are two.
  const double first = cuda::seconds_between(start, middle);
  const double second = cuda::seconds_between(middle, stop);
  const double both = cuda::seconds_between(start, stop);
  CHECK(first >= 0.0195);
  CHECK(second >= 0.0095);
  CHECK(both >= first);
  CHECK(both >= second);
  CHECK(std::abs(both - first - second) <= 0.0001);
}

TEST_CASE("work before the first event does not count", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event before, start, stop;
  before.record(stream);
  keep_busy(stream, 50);
  start.record(stream);
  stop.record(stream);
  stop.synchronize();
  CHECK(cuda::seconds_between(before, stop) >= 0.0495);
  CHECK(cuda::seconds_between(start, stop) < cuda::seconds_between(before, stop));
  CHECK(cuda::seconds_between(start, stop) >= 0);
}

TEST_CASE("events of two streams have times on one clock", "[timing]") {
  const cuda::Stream first, second;
  const cuda::Event start, stop;
  start.record(first);
  start.synchronize();
  keep_busy(second, 20);
  stop.record(second);
  stop.synchronize();
  CHECK(cuda::seconds_between(start, stop) >= 0.0195);
}

TEST_CASE("a second record replaces the first", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event start, stop;
  start.record(stream);
  keep_busy(stream, 30);
  const cuda::Event long_ago;
  long_ago.record(stream);
  start.record(stream);
  stop.record(stream);
  stop.synchronize();
  CHECK(cuda::seconds_between(long_ago, stop) >= cuda::seconds_between(start, stop));
}

void check_elapsed_fails(cudaEvent_t start, cudaEvent_t stop, cudaError_t expected) {
  float milliseconds = -1;
  CHECK(cudaEventElapsedTime(&milliseconds, start, stop) == expected);
  (void)cudaGetLastError();
}

TEST_CASE("no time without a record", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event recorded, never;
  recorded.record(stream);
  recorded.synchronize();
  check_elapsed_fails(never, recorded, cudaErrorInvalidResourceHandle);
  check_elapsed_fails(recorded, never, cudaErrorInvalidResourceHandle);
}

TEST_CASE("no time from events created with cudaEventDisableTiming", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event timed;
  const FlaggedEvent untimed(cudaEventDisableTiming);
  timed.record(stream);
  REQUIRE(cudaEventRecord(untimed.event, stream) == cudaSuccess);
  REQUIRE(cudaStreamSynchronize(stream) == cudaSuccess);
  check_elapsed_fails(timed, untimed.event, cudaErrorInvalidResourceHandle);
  check_elapsed_fails(untimed.event, timed, cudaErrorInvalidResourceHandle);
}

TEST_CASE("no time before both events were reached", "[timing]") {
  const cuda::Stream stream;
  const cuda::Event start, stop;
  start.record(stream);
  start.synchronize();
  Gate gate(stream);
  stop.record(stream);
  check_elapsed_fails(start, stop, cudaErrorNotReady);
  gate.open();
  stop.synchronize();
  CHECK(cuda::seconds_between(start, stop) >= 0);
}

TEST_CASE("events that block the waiting thread, or carry no time, order work all the same",
          "[timing]") {
  const cuda::Stream first, second;
  const std::vector<unsigned> kinds = {cudaEventDefault, cudaEventBlockingSync,
                                       cudaEventDisableTiming,
                                       cudaEventBlockingSync | cudaEventDisableTiming};
  for (const unsigned flags : kinds) {
    const FlaggedEvent event(flags);
    Gate gate(first);
    REQUIRE(cudaEventRecord(event.event, first) == cudaSuccess);
    REQUIRE(cudaStreamWaitEvent(second, event.event, 0) == cudaSuccess);
    CHECK(cudaEventQuery(event.event) == cudaErrorNotReady);
    CHECK(stays_pending(second));
    gate.open();
    CHECK(cudaEventSynchronize(event.event) == cudaSuccess);
    CHECK(cudaStreamSynchronize(second) == cudaSuccess);
  }
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace ddp::conformance
