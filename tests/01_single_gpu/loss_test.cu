// The loss kernels by hand values, with guard cells around every output.

#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "tests/01_single_gpu/device_values.hpp"

namespace ddp {
namespace {

template <class T>
struct Outcome {
  std::vector<T> loss, correct, gradient;
  unsigned flags;
};

template <class T>
Outcome<T> run_cross_entropy(const std::vector<T>& logits, const std::vector<std::int32_t>& labels,
                             int batch_size) {
  const cuda::Stream stream;
  const std::size_t rows = labels.size();
  const auto columns = static_cast<int>(logits.size() / rows);
  const DeviceValues<T> z(logits);
  const DeviceValues<std::int32_t> device_labels(labels);
  const DeviceValues<T> loss(rows, T(-1)), correct(rows, T(-1)), gradient(logits.size(), T(-1));
  const DeviceScalars<T> scalars;
  cuda::launch<cross_entropy_kernel<T>>(
      {stream, cuda::blocks_for(rows, 64), 64}, z.data(), device_labels.data(),
      static_cast<int>(rows), columns, static_cast<T>(batch_size),
      RowResults<T>{loss.data(), correct.data(), gradient.data()}, &scalars.data()->flags);
  return {loss.read(stream), correct.read(stream), gradient.read(stream),
          scalars.read(stream).flags};
}

template <class T>
Outcome<T> run_squared_error(const std::vector<T>& outputs, const std::vector<T>& targets,
                             std::size_t rows, int batch_size) {
  const cuda::Stream stream;
  const auto columns = static_cast<int>(outputs.size() / rows);
  const DeviceValues<T> y(outputs), t(targets);
  const DeviceValues<T> loss(rows, T(-1)), correct(rows, T(-1)), gradient(outputs.size(), T(-1));
  const DeviceScalars<T> scalars;
  cuda::launch<squared_error_kernel<T>>(
      {stream, cuda::blocks_for(rows, 64), 64}, y.data(), t.data(), static_cast<int>(rows), columns,
      static_cast<T>(batch_size), RowResults<T>{loss.data(), correct.data(), gradient.data()},
      &scalars.data()->flags);
  return {loss.read(stream), correct.read(stream), gradient.read(stream),
          scalars.read(stream).flags};
}

}  // namespace

TEMPLATE_TEST_CASE("cross-entropy of probabilities 1/8, 2/8, 5/8", "", float, double) {
  using T = TestType;
  const std::vector<T> logits = as<T>({0, std::log(2.0), std::log(5.0)});
  for (const std::size_t rows : {1, 63, 65, 255, 257}) {
    INFO(rows << " rows");
    std::vector<T> z;
    std::vector<std::int32_t> labels;
    std::vector<double> losses, correct, gradient;
    for (std::size_t r = 0; r < rows; ++r) {
      z.insert(z.end(), logits.begin(), logits.end());
      const auto label = static_cast<std::int32_t>(r % 3);
      labels.push_back(label);
      losses.push_back(std::log(std::vector<double>{8, 4, 1.6}[r % 3]));
      correct.push_back(label == 2 ? 1 : 0);
      // Divided by 4: the size of the whole batch, not the number of rows here.
      for (int c = 0; c < 3; ++c) {
        gradient.push_back(((c == 0 ? 1 : c == 1 ? 2 : 5) / 8.0 - (c == label ? 1 : 0)) / 4);
      }
    }
    const Outcome<T> outcome = run_cross_entropy(z, labels, 4);
    check_close(outcome.loss, losses, 2);
    check_close(outcome.gradient, gradient, 2);
    CHECK(outcome.correct == as<T>(correct));
    CHECK(outcome.flags == 0);
  }
}

TEMPLATE_TEST_CASE("cross-entropy is stable for logits of 1000, and gradient rows sum to 0", "",
                   float, double) {
  using T = TestType;
  const std::vector<T> z = as<T>({1000, 0, 1000,        //
                                  -1000, -1000, -1000,  //
                                  0, 1000, -1000,       //
                                  1, 2, 3.5});
  const Outcome<T> outcome = run_cross_entropy(z, {0, 2, 2, 1}, 1);
  const double sum = std::exp(-2.5) + std::exp(-1.5) + 1;  // of the last row
  check_close(outcome.loss, {std::log(2.0), std::log(3.0), 2000, std::log(sum) + 1.5}, 4);
  check_close(outcome.gradient,
              {-0.5, 0, 0.5, 1 / 3.0, 1 / 3.0, -2 / 3.0, 0, 1, -1, std::exp(-2.5) / sum,
               std::exp(-1.5) / sum - 1, 1 / sum},
              2);
  for (std::size_t row = 0; row < 4; ++row) {
    const auto first = outcome.gradient.begin() + static_cast<std::ptrdiff_t>(3 * row);
    CHECK(std::abs(std::accumulate(first, first + 3, T(0))) <=
          2 * std::numeric_limits<T>::epsilon());
  }
  CHECK(outcome.correct == as<T>({1, 0, 0, 0}));  // of equal outputs the first counts
  CHECK(outcome.flags == 0);
}

TEMPLATE_TEST_CASE("DA-03: a label out of range is reported, and writes nothing out of bounds", "",
                   float, double) {
  using T = TestType;
  for (const std::int32_t label : {10, 255, -1, std::numeric_limits<std::int32_t>::max(),
                                   std::numeric_limits<std::int32_t>::min()}) {
    INFO("label " << label);
    std::vector<std::int32_t> labels(100, 3);
    labels[57] = label;
    const std::vector<T> logits(1000, T(0));
    const Outcome<T> outcome = run_cross_entropy(logits, labels, 100);
    CHECK(outcome.flags == label_out_of_range);
    CHECK(outcome.loss[57] == 0);
    CHECK(outcome.correct[57] == 0);
    for (std::size_t c = 0; c < 10; ++c) CHECK(outcome.gradient[570 + c] == 0);
    check_close<T>({outcome.loss[56], outcome.loss[58]}, {std::log(10.0), std::log(10.0)}, 2, 2);
  }
}

TEMPLATE_TEST_CASE("FA-03: a loss that is not finite raises its flag", "", float, double) {
  using T = TestType;
  const T infinity = std::numeric_limits<T>::infinity();
  const T nan = std::numeric_limits<T>::quiet_NaN();
  for (const T bad : {infinity, -infinity, nan}) {
    for (const std::size_t where : {0, 1, 2}) {
      INFO("logit " << where << " is " << bad);
      std::vector<T> logits = as<T>({1, 2, 3});
      logits[where] = bad;
      // A logit of -inf for another class is a probability of 0, and nothing wrong.
      const bool fine = bad == -infinity && where != 1;
      CHECK(run_cross_entropy(logits, {1}, 1).flags == (fine ? 0U : non_finite_loss));
      CHECK(run_squared_error(logits, as<T>({1, 2, 3}), 1, 1).flags == non_finite_loss);
    }
  }
}

TEMPLATE_TEST_CASE("the squared error is half the squared distance, summed over outputs", "", float,
                   double) {
  using T = TestType;
  for (const std::size_t rows : {1, 63, 65, 257}) {
    std::vector<T> y, t;
    std::vector<double> gradient;
    for (std::size_t r = 0; r < rows; ++r) {
      y.insert(y.end(), {T(1), T(2)});
      t.insert(t.end(), {r % 2 == 0 ? T(0) : T(8), T(4)});
      gradient.insert(gradient.end(), {r % 2 == 0 ? 0.125 : -0.875, -0.25});  // divided by 8
    }
    const Outcome<T> outcome = run_squared_error(y, t, rows, 8);
    CHECK(outcome.gradient == as<T>(gradient));
    for (std::size_t r = 0; r < rows; ++r) {
      CHECK(outcome.loss[r] == (r % 2 == 0 ? T(2.5) : T(26.5)));  // (1 + 4) / 2, (49 + 4) / 2
      CHECK(outcome.correct[r] == (r % 2 == 0 ? T(1) : T(0)));
    }
    CHECK(outcome.flags == 0);
  }
}

TEMPLATE_TEST_CASE("a batch adds its losses and hits to the step's sums", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const DeviceScalars<T> scalars;
  scalars.write({T(100), T(7), T(0), 0, 0});
  const DeviceValues<T> outputs(as<T>({1, 2, 3, 4}));
  const DeviceValues<T> targets(as<T>({0, 4, 3, 2}));
  const Loss<T> loss(LossKind::mse, 2, 3);
  const Batch<T> batch{nullptr, nullptr, targets.data(), 2};
  const T* gradient = loss.forward_backward(outputs.data(), batch, 4, scalars.data(), stream);
  CHECK(cuda::download(gradient, 4, stream) == as<T>({0.25, -0.5, 0, 0.5}));
  CHECK(scalars.read(stream).loss_sum == T(104.5));  // 100 + 2.5 + 2
  CHECK(scalars.read(stream).correct == T(8));

  const Batch<T> empty{nullptr, nullptr, targets.data(), 0};
  loss.forward_backward(outputs.data(), empty, 4, scalars.data(), stream);
  CHECK(scalars.read(stream).loss_sum == T(104.5));

  clear_sums(scalars.data(), stream);
  CHECK(scalars.read(stream).loss_sum == T(0));
  CHECK(scalars.read(stream).correct == T(0));
}

}  // namespace ddp
