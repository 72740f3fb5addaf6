#include "common/io/progress.hpp"

#include <algorithm>
#include <sstream>
#include <string>

#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;
using std::chrono::milliseconds;

// Steps of 256 samples with loss 1 / step, `interval` apart.
std::string progress_of(ProgressStyle style, bool colour, std::int64_t steps, std::int64_t total,
                        std::int64_t steps_per_epoch, milliseconds interval) {
  std::ostringstream out;
  {
    Progress progress(out, {style, colour, 80}, total, steps_per_epoch);
    Progress::Clock::time_point now{};
    for (std::int64_t step = 1; step <= steps; ++step, now += interval) {
      const int epoch = static_cast<int>((step - 1) / steps_per_epoch) + 1;
      progress.step({step, epoch, 1.0 / static_cast<double>(step), 0.05, 256, 0}, now);
    }
  }
  return out.str();
}

auto count(const std::string& text, char character) {
  return std::count(text.begin(), text.end(), character);
}

TEST_CASE("A log gets about ten plain lines an epoch") {
  const std::string text = progress_of(ProgressStyle::lines, false, 470, 470, 235, milliseconds(8));
  CHECK(count(text, '\n') >= 20);
  CHECK(count(text, '\n') <= 24);
  CHECK_THAT(text, Contains("step 1/470  epoch 1  loss 1.0000  rate 0.05\n"));
  CHECK_THAT(text, Contains("step 470/470  epoch 2  loss 0.0021"));
  CHECK_THAT(text, Contains("32000 samples/s"));  // 256 every 8 ms
  CHECK_THAT(text, !Contains("\r") && !Contains("\x1b"));
}

TEST_CASE("A short run reports every step in a log") {
  CHECK(count(progress_of(ProgressStyle::lines, false, 3, 3, 235, milliseconds(8)), '\n') == 3);
  CHECK(progress_of(ProgressStyle::lines, false, 0, 0, 235, milliseconds(8)).empty());
}

TEST_CASE("The bar is drawn at most ten times a second, at the end, and ends its line") {
  // 200 steps in 2 s: the first, one each 0.1 s, the last.
  const std::string text = progress_of(ProgressStyle::bar, false, 200, 200, 100, milliseconds(10));
  CHECK(count(text, '\r') >= 20);
  CHECK(count(text, '\r') <= 22);
  CHECK(count(text, '\n') == 1);
  CHECK(text.ends_with('\n'));
  const std::string last = text.substr(text.rfind('\r'));
  CHECK_THAT(last, Contains("########## 100%") && Contains("epoch 2") && Contains("loss 0.0050") &&
                       Contains("25600 samples/s") && Contains("0:00 left"));
  CHECK_THAT(text, !Contains("\x1b"));
}

TEST_CASE("The bar of a run that ends early ends its line too, and tells the time left") {
  // 50 of 200 steps, 1 s each: 150 s are left.
  const std::string text = progress_of(ProgressStyle::bar, false, 50, 200, 100, milliseconds(1000));
  CHECK(text.ends_with('\n'));
  const std::string last = text.substr(text.rfind('\r'));
  CHECK_THAT(last, Contains("##........  25%") && Contains("2:30 left"));
}

TEST_CASE("A line that is shorter than the one before wipes all of it") {
  std::ostringstream out;
  Progress progress(out, {ProgressStyle::bar, false, 80}, 2, 2);
  const Progress::Clock::time_point now{};
  progress.step({1, 1, 123456.0, 0.05, 256, 0}, now);
  const std::size_t longer = out.str().size();
  progress.step({2, 1, 1.0, 0.05, 256, 0}, now);
  CHECK(out.str().size() == 2 * longer);
}

TEST_CASE("The bar stays inside the terminal, whatever its width") {
  for (const std::size_t columns : {1, 5, 30, 80, 500}) {
    std::ostringstream out;
    Progress progress(out, {ProgressStyle::bar, false, columns}, 100000, 1000);
    progress.step({1, 1, 2.5, 0.05, 256, 0}, {});
    progress.step({2, 1, 2.5, 0.0005, 256, 0}, Progress::Clock::time_point(milliseconds(500)));
    const std::string last = out.str().substr(out.str().rfind('\r') + 1);
    CHECK(last.size() <= std::max<std::size_t>(1, columns - 1));
  }
}

TEST_CASE("Colour only where it is asked for; --quiet says nothing") {
  CHECK(progress_of(ProgressStyle::bar, true, 2, 2, 2, milliseconds(1))
            .find("\x1b[32m##########\x1b[0m 100%") != std::string::npos);
  CHECK(progress_of(ProgressStyle::none, true, 5, 5, 5, milliseconds(500)).empty());
  CHECK(progress_look_of_stderr(true).style == ProgressStyle::none);
  const ScopedVariable no_colour("NO_COLOR", "1");
  CHECK_FALSE(progress_look_of_stderr(false).colour);
}

}  // namespace
}  // namespace ddp
