#include "common/run/step_log.hpp"

#include <chrono>
#include <limits>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

/// One of two ranks. It is alone in this program, and so cannot agree with the other.
class OneOfTwo final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 2; }
  std::vector<std::string> all_gather(const std::string& text) const override { return {text}; }
  Traffic traffic() const override { return {}; }
};

struct Steps {
  Steps() { log.start(stream); }

  /// Each step leaves these scalars; with `waits` they have arrived before the next one begins.
  void push(std::int64_t step, const StepScalars<float>& scalars, bool waits) {
    host[0] = scalars;
    cuda::copy_async(device.data(), host.data(), 1, stream);
    stream.synchronize();  // the pinned memory is written again
    if (!waits) cuda::check(cudaLaunchHostFunc(stream, sleep, nullptr));
    log.push({step, 1, 10, 0.1}, device.data(), stream);
    if (waits) stream.synchronize();
  }
  static void sleep(void*) { std::this_thread::sleep_for(std::chrono::milliseconds(3)); }

  const OneOfTwo ranks;
  std::ostringstream out;
  Progress progress{out, {}, 100, 100};
  const cuda::Stream stream;
  const cuda::DeviceBuffer<StepScalars<float>> device{1};
  cuda::PinnedBuffer<StepScalars<float>> host{1};
  StepLog<float> log{ranks, nullptr, progress};
};

constexpr StepScalars<float> good{10, 0, 0, 0, 0};

TEST_CASE("FA-03: ranks leave after the same step, whenever each of them has read what is wrong") {
  for (const bool waits : {true, false}) {
    Steps taken;
    StepScalars<float> bad = good;
    bad.flags = non_finite_gradient;
    bad.raised_by = 2;
    for (std::int64_t step = 1; step <= 6; ++step) {
      INFO("step " << step << (waits ? ", read at once" : ", read late"));
      CHECK_NOTHROW(taken.push(step, step < 3 ? good : bad, waits));
    }
    // The host may be four steps ahead of what it has read: now each rank has read step 3.
    CHECK_THROWS_WITH(taken.push(7, bad, waits),
                      Catch::Matchers::StartsWith("non-finite gradient in step 3 on rank 1;"));
    CHECK(taken.log.steps().size() == 2);
  }
}

TEST_CASE("FA-03: a checkpoint or the end of the run is told at once what was wrong") {
  Steps taken;
  StepScalars<float> bad = good;
  bad.loss_sum = std::numeric_limits<float>::infinity();
  taken.push(1, good, false);
  taken.push(2, bad, false);
  CHECK_THROWS_AS(taken.log.read_all(), AgreedError);
  CHECK(taken.log.steps().size() == 1);
}

TEST_CASE("Ranks stop after the same step, whenever each of them has read that they are to") {
  for (const bool waits : {true, false}) {
    Steps taken;
    StepScalars<float> asked = good;
    asked.stop = 1;
    taken.push(1, good, waits);
    for (std::int64_t step = 2; step <= 6; ++step) {
      INFO("step " << step << (waits ? ", read at once" : ", read late"));
      CHECK_FALSE(taken.log.stops_before(step));
      taken.push(step, asked, waits);
    }
    CHECK(taken.log.stops_before(7));
  }
}

}  // namespace
}  // namespace ddp
