#include "common/run/scalar_ring.hpp"

#include <chrono>
#include <thread>

#include "tests/support/catch.hpp"

namespace ddp {
namespace {

using Ring = ScalarRing<double>;

void sleep_5_ms(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }

TEST_CASE("Scalars arrive in order and with their own step, far beyond the size of the ring") {
  const cuda::Stream stream;
  constexpr int pushes = 100;
  const cuda::PinnedBuffer<StepScalars<double>> source(pushes + 1);
  const cuda::DeviceBuffer<StepScalars<double>> scalars(1);
  Ring ring;
  ring.start(stream);
  int read = 0;
  const auto check = [&](const Ring::Arrival& arrival) {
    ++read;
    CHECK(arrival.note.step == read);
    CHECK(arrival.note.epoch == read / 10);
    CHECK(arrival.note.samples == 2 * read);
    CHECK(arrival.note.learning_rate == 0.5 * read);
    CHECK(arrival.scalars.loss_sum == 1000.0 + read);
    CHECK(arrival.scalars.flags == static_cast<unsigned>(read));
    CHECK(arrival.seconds >= 0);
  };
  for (int step = 1; step <= pushes; ++step) {
    source[static_cast<std::size_t>(step)] = {1000.0 + step, 0, 0, 0, static_cast<unsigned>(step)};
    cuda::copy_async(scalars.data(), &source[static_cast<std::size_t>(step)], 1, stream);
    if (ring.full()) check(ring.pop());
    ring.push({step, step / 10, 2 * step, 0.5 * step}, scalars.data(), stream);
  }
  CHECK(ring.full());
  while (!ring.empty()) check(ring.pop());
  CHECK(read == pushes);
  CHECK_FALSE(ring.pop_if_done().has_value());
}

TEST_CASE("A step is not read before the device has done it, and its time is the device's") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<StepScalars<double>> scalars(1);
  cuda::clear_async(scalars.data(), 1, stream);
  Ring ring;
  ring.start(stream);
  cuda::check(cudaLaunchHostFunc(stream, sleep_5_ms, nullptr));
  ring.push({1, 1, 1, 1}, scalars.data(), stream);
  // The host is here at once, so this can fail only if the host itself slept for 5 ms; then the
  // ring may be right to have the step.
  const auto early = ring.pop_if_done();
  const Ring::Arrival first = early ? *early : ring.pop();
  CHECK(first.seconds >= 0.004);
  cuda::check(cudaLaunchHostFunc(stream, sleep_5_ms, nullptr));
  ring.push({2, 1, 1, 1}, scalars.data(), stream);
  stream.synchronize();
  const auto second = ring.pop_if_done();
  REQUIRE(second.has_value());
  CHECK(second->note.step == 2);
  CHECK(second->seconds >= 0.004);
}

}  // namespace
}  // namespace ddp
