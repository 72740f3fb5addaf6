// The loss scale on the device: what is an overflow, and when the scale changes.

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "06_mixed_precision/loss_scaler.cuh"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

// What was noted about each step, and the state after the last.
template <class T>
struct History {
  std::vector<T> scale, applied_before;
  std::string outcome;  // 'o' applied, 'x' skipped, '!' failed
  LossScaleState<T> after;
};

// A step for each letter: 'x' with an infinite gradient, otherwise with one that is 1 unscaled.
template <class T>
History<T> after_steps(const LossScaleRule& rule, const std::string& letters) {
  const cuda::Stream stream;
  const LossScaler<T> scaler(rule, stream);
  const DeviceScalars<T> scalars;
  History<T> history;
  for (const char letter : letters) {
    const T scale = cuda::download(scaler.scale(), 1, stream)[0];
    const DeviceValues<T> gradient(
        std::vector<T>{scale, letter == 'x' ? std::numeric_limits<T>::infinity() : -scale});
    clear_sums(scalars.data(), stream);
    scaler.unscale(gradient.span(), scalars.data(), stream);
    scaler.update(scalars.data(), stream);
    if (letter == 'o') CHECK(gradient.read(stream) == std::vector<T>{1, -1});
    const StepScalars<T> seen = scalars.read(stream);
    history.scale.push_back(seen.loss_scale);
    history.applied_before.push_back(seen.applied);
    history.outcome += seen.flags != 0 ? '!' : seen.skip != 0 ? 'x' : 'o';
    if (seen.flags != 0) CHECK(seen.flags == non_finite_gradient);
  }
  const std::vector<T> state = download(scaler.state().values, stream);
  history.after = {state[0], state[1], state[2], state[3]};
  return history;
}

TEMPLATE_TEST_CASE("MP-03: the scale grows after three good steps in a row, and backs off", "",
                   float, double) {
  const LossScaleRule rule{.first = 1024,
                           .growth_interval = 3,
                           .growth = 2,
                           .backoff = 0.5,
                           .floor = 1,
                           .ceiling = 65536};
  const std::string outcomes = "oooooxoooxx";
  const History<TestType> history = after_steps<TestType>(rule, outcomes);
  CHECK(history.scale ==
        std::vector<TestType>{1024, 1024, 1024, 2048, 2048, 2048, 1024, 1024, 1024, 2048, 1024});
  CHECK(history.outcome == outcomes);
  CHECK(history.applied_before == std::vector<TestType>{0, 1, 2, 3, 4, 5, 5, 6, 7, 8, 8});
  CHECK(history.after.scale == 512);
  CHECK(history.after.good_steps == 0);
  CHECK(history.after.applied == 8);
  CHECK(history.after.skipped == 3);
  // The two good steps before the overflow do not count later, nor does one after a growth.
  CHECK(after_steps<TestType>(rule, "ooxoo").after.good_steps == 2);
  CHECK(after_steps<TestType>(rule, "ooxooo").after.scale == 1024);
  CHECK(after_steps<TestType>(rule, "oooo").after.good_steps == 1);
}

TEST_CASE("MP-03: the scale stops at its ceiling and at its floor") {
  const LossScaleRule rule{.first = 1024,
                           .growth_interval = 1,
                           .growth = 2,
                           .backoff = 0.5,
                           .floor = 300,
                           .ceiling = 3000};
  CHECK(after_steps<float>(rule, "ooooo").scale ==
        std::vector<float>{1024, 2048, 3000, 3000, 3000});
  const History<float> falling = after_steps<float>(rule, "xx");
  CHECK(falling.scale == std::vector<float>{1024, 512});
  CHECK(falling.outcome == "xx");
  CHECK(falling.after.scale == 300);  // not 256
}

TEST_CASE("MP-02: an overflow with no smaller scale left to try is a failure, not a skip") {
  const LossScaleRule dynamic{.first = 4, .floor = 1, .ceiling = 16};
  CHECK(after_steps<float>(dynamic, "xxo").outcome == "xxo");  // the last at the floor
  CHECK(after_steps<float>(dynamic, "xxx").outcome == "xx!");
  const LossScaleRule fixed{.first = 1024, .growth_interval = 1, .floor = 1024, .ceiling = 1024};
  CHECK(after_steps<float>(fixed, "ooo").scale == std::vector<float>{1024, 1024, 1024});
  CHECK(after_steps<float>(fixed, "ox").outcome == "o!");
}

TEMPLATE_TEST_CASE("MP-02 b: every NaN and infinity is found, and no finite number is one",
                   "[not-tsan]", float, double) {
  using Limits = std::numeric_limits<TestType>;
  constexpr std::size_t count = 1'000'003;
  const cuda::Stream stream;
  const LossScaler<TestType> scaler({.first = 2, .floor = 1, .ceiling = 2}, stream);
  const DeviceValues<TestType> gradient(count, TestType(0));
  const DeviceScalars<TestType> scalars;
  const auto found = [&](std::size_t index, TestType value) {
    const std::vector<TestType> one = {value}, zero = {0};
    cuda::upload(gradient.data() + index, std::span(one), stream);
    clear_sums(scalars.data(), stream);
    scaler.unscale(gradient.span(), scalars.data(), stream);
    cuda::upload(gradient.data() + index, std::span(zero), stream);
    return scalars.read(stream).skip != 0;
  };
  CHECK(found(count - 1, Limits::quiet_NaN()));
  CHECK(found(0, Limits::infinity()));
  CHECK(found(count / 2, -Limits::infinity()));
  CHECK(found(count - 1, -Limits::quiet_NaN()));
  CHECK_FALSE(found(count - 1, 65504));
  CHECK_FALSE(found(0, Limits::max()));
  CHECK_FALSE(found(count / 2, Limits::lowest()));
  CHECK_FALSE(found(0, Limits::denorm_min()));
  CHECK_FALSE(found(0, 0));
  gradient.read(stream);  // the guard cells
}

TEST_CASE("CL-01 a: clipping sees the gradient without its scale") {
  const cuda::Stream stream;
  const LossScaler<float> scaler({.first = 1024, .floor = 1024, .ceiling = 1024}, stream);
  for (const auto& [max_norm, expected] :
       {std::pair{1.0, std::vector{0.6, 0.8}}, std::pair{10.0, std::vector{3.0, 4.0}}}) {
    const DeviceValues<float> gradient(std::vector<float>{3072, 4096});
    const DeviceScalars<float> scalars;
    scaler.unscale(gradient.span(), scalars.data(), stream);
    GradientClipper<float>(max_norm, 2).clip(gradient.span(), scalars.data(), stream);
    CHECK(scalars.read(stream).gradient_norm == 5);
    check_close(gradient.read(stream), expected, max_norm == 1 ? 1 : 0);
  }
}

TEST_CASE("a gradient that overflows is a skip with clipping, too") {
  const cuda::Stream stream;
  const LossScaler<float> scaler({.first = 1024, .floor = 1, .ceiling = 1024}, stream);
  const DeviceValues<float> gradient(std::vector<float>{HUGE_VALF, 1});
  const DeviceScalars<float> scalars;
  scaler.unscale(gradient.span(), scalars.data(), stream);
  GradientClipper<float>(1, 2).clip(gradient.span(), scalars.data(), stream);
  CHECK(scalars.read(stream).skip != 0);
  CHECK(scalars.read(stream).flags == 0);
}

}  // namespace
}  // namespace ddp
