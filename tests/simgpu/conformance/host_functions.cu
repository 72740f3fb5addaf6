// cudaLaunchHostFunc: a function of the host as an operation of a stream.
#include <atomic>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

struct Log {
  std::vector<int> entries;
};

struct Entry {
  Log* log;
  int number;
};

void write_entry(void* data) {
  const Entry& entry = *static_cast<const Entry*>(data);
  entry.log->entries.push_back(entry.number);
}

TEST_CASE("host functions of a stream run in order, one at a time", "[host functions]") {
  const cuda::Stream stream;
  Log log;  // no lock: the stream is the order, and synchronising publishes it
  std::vector<Entry> entries;
  std::vector<int> expected;
  for (int i = 0; i < 100; ++i) {
    entries.push_back({&log, i});
    expected.push_back(i);
  }
  for (Entry& entry : entries) {
    CHECK(cudaLaunchHostFunc(stream, write_entry, &entry) == cudaSuccess);
  }
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(log.entries == expected);
}

struct Reading {
  const int* source;
  int seen;
};

void read_source(void* data) {
  Reading& reading = *static_cast<Reading*>(data);
  reading.seen = *reading.source;
}

TEST_CASE("a host function sees the copies before it and not those after it", "[host functions]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  const cuda::PinnedBuffer<int> host(1);
  Reading first{host.data(), -1}, second{host.data(), -1};
  for (int round = 0; round < 20; ++round) {
    cuda::launch<set>({stream, 1, 1}, value.data(), 2 * round);
    cuda::copy_async(host.data(), value.data(), 1, stream);
    CHECK(cudaLaunchHostFunc(stream, read_source, &first) == cudaSuccess);
    cuda::launch<set>({stream, 1, 1}, value.data(), 2 * round + 1);
    cuda::copy_async(host.data(), value.data(), 1, stream);
    CHECK(cudaLaunchHostFunc(stream, read_source, &second) == cudaSuccess);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(first.seen == 2 * round);
    CHECK(second.seen == 2 * round + 1);
  }
}

void write_pinned(void* data) { *static_cast<int*>(data) += 1; }

TEST_CASE("what a host function writes is seen by the copy after it", "[host functions]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(10);
  const cuda::PinnedBuffer<int> host(1);
  host[0] = 100;
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(cudaLaunchHostFunc(stream, write_pinned, host.data()) == cudaSuccess);
    cuda::copy_async(values.data() + i, host.data(), 1, stream);
  }
  const std::vector<int> seen = read_back(values);
  for (std::size_t i = 0; i < 10; ++i) CHECK(seen[i] == 101 + static_cast<int>(i));
}

TEST_CASE("a host function runs on a thread of the runtime, while the caller goes on",
          "[host functions]") {
  const cuda::Stream stream;
  struct Meeting {
    std::atomic<bool> caller_went_on = false;
    std::thread::id thread;
  } meeting;
  const auto wait_for_caller = [](void* data) {
    Meeting& shared = *static_cast<Meeting*>(data);
    while (!shared.caller_went_on) std::this_thread::yield();
    shared.thread = std::this_thread::get_id();
  };
  CHECK(cudaLaunchHostFunc(stream, wait_for_caller, &meeting) == cudaSuccess);
  meeting.caller_went_on = true;  // never reached if the call ran the function itself
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(meeting.thread != std::thread::id{});
  CHECK(meeting.thread != std::this_thread::get_id());
}

TEST_CASE("events and other streams wait for host functions", "[host functions]") {
  const cuda::Stream stream, waiting;
  const cuda::Event event;
  const cuda::PinnedBuffer<int> host(1);
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  host[0] = 41;
  keep_busy(stream, 10);
  CHECK(cudaLaunchHostFunc(stream, write_pinned, host.data()) == cudaSuccess);
  event.record(stream);
  cuda::wait_for(waiting, event);
  cuda::copy_async(value.data(), host.data(), 1, waiting);
  CHECK(read_back(value).front() == 42);
}

TEST_CASE("a null host function is refused", "[host functions]") {
  const cuda::Stream stream;
  CHECK(cudaLaunchHostFunc(stream, nullptr, nullptr) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ddp::conformance
