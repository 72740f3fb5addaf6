// A stream's thread may sleep while its host does the work. Nothing may be left undone for that.
#include <chrono>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void write_number(int* place, int number) { *place = number; }

__global__ void take_long(volatile int* place) {
  for (int i = 0; i < 200'000; ++i) *place = i;
}

/// Looks at pinned memory without a call of CUDA, which might do the work itself.
bool comes_to_be(const cuda::PinnedBuffer<int>& memory, int expected) {
  using clock = std::chrono::steady_clock;
  const volatile int& value = memory[0];
  const auto limit = clock::now() + std::chrono::seconds(10);
  while (value != expected && clock::now() < limit) std::this_thread::yield();
  return value == expected;
}

class StreamThread {
 protected:
  /// As a training step: the host waits at once, and does the work itself.
  void steps() {
    for (int step = 0; step < 20; ++step) {
      write(-1);
      stream.synchronize();
    }
  }
  void write(int number) {
    cuda::launch<write_number>({stream, 1, 1}, value.data(), number);
    cuda::copy_async(host.data(), value.data(), 1, stream);
  }

  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value{1};
  cuda::PinnedBuffer<int> host{1};
};

TEST_CASE_METHOD(StreamThread, "a stream does what nobody waits for", "[streams][not-tsan]") {
  for (int round = 0; round < 30; ++round) {
    steps();
    std::this_thread::sleep_for(std::chrono::microseconds(20 * round));
    write(round);
    REQUIRE(comes_to_be(host, round));
  }
}

TEST_CASE_METHOD(StreamThread, "a stream does what its host has left, having waited for less",
                 "[streams][not-tsan]") {
  const cuda::Event half_way;
  for (int round = 0; round < 30; ++round) {
    steps();
    // Long enough for the stream's thread to wake up, to find the host at work, and to sleep again.
    cuda::launch<take_long>({stream, 1, 1}, value.data());
    half_way.record(stream);
    write(round);
    half_way.synchronize();
    REQUIRE(comes_to_be(host, round));
  }
}

TEST_CASE_METHOD(StreamThread, "another stream waits for work that no host waits for",
                 "[streams][not-tsan]") {
  const cuda::Stream other;
  const cuda::Event written;
  const cuda::DeviceBuffer<int> copy{1};
  for (int round = 0; round < 30; ++round) {
    steps();
    cuda::launch<write_number>({stream, 1, 1}, value.data(), round);
    written.record(stream);
    cuda::wait_for(other, written);
    cuda::copy_async(copy.data(), value.data(), 1, other);
    cuda::copy_async(host.data(), copy.data(), 1, other);
    REQUIRE(comes_to_be(host, round));
  }
}

}  // namespace
}  // namespace ddp::conformance
