// Sums, checks, clipping and the update, by hand values.

#include <cmath>
#include <limits>
#include <vector>

#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "tests/01_single_gpu/device_values.hpp"

namespace ddp {
namespace {

// One weight of 1 x 1 and one bias, at hand values.
template <class T>
struct Toy {
  explicit Toy(const Options& options, T weight, T bias)
      : parameters({{"weight", {1, 1}, true}, {"bias", {1}, false}}, stream),
        sgd(options, parameters, stream) {
    set(parameters.value(0), weight);
    set(parameters.value(1), bias);
  }
  void set(std::span<T> where, T value) {
    cuda::upload(where.data(), std::span<const T>(&value, 1), stream);
  }
  T get(std::span<T> where) { return cuda::download(where.data(), 1, stream)[0]; }
  void step(double learning_rate) { sgd.step(parameters, learning_rate, scalars.data(), stream); }
  T weight() { return get(parameters.value(0)); }
  T bias() { return get(parameters.value(1)); }

  cuda::Stream stream;
  ParameterStore<T> parameters;
  Sgd<T> sgd;
  DeviceScalars<T> scalars;
};

Options plain() {
  Options options;
  options.momentum = 0;
  return options;
}

}  // namespace

TEMPLATE_TEST_CASE("a sum takes every element once and adds to what is there", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const int count : {0, 1, 31, 32, 255, 256, 257, 1000}) {
    std::vector<T> values;
    double expected = 5;
    for (int i = 0; i < count; ++i) {
      values.push_back(static_cast<T>(i % 7 - 2));
      expected += i % 7 - 2;
    }
    const DeviceValues<T> device_values(values), result(1, T(5));
    add_sum(device_values.data(), count, result.data(), stream);
    CHECK(result.read(stream)[0] == static_cast<T>(expected));
  }
}

TEMPLATE_TEST_CASE("MP-02: one NaN or infinity among a million is found, the largest number is not",
                   "[not-tsan]", float, double) {
  using T = TestType;
  using Limits = std::numeric_limits<T>;
  const cuda::Stream stream;
  constexpr std::size_t count = 1'000'003;
  struct Case {
    std::size_t where;
    T value;
    unsigned flags;
  };
  for (const Case& c :
       {Case{count - 1, Limits::quiet_NaN(), non_finite_gradient},
        Case{0, Limits::infinity(), non_finite_gradient},
        Case{count / 2, -Limits::infinity(), non_finite_gradient},
        Case{4095, Limits::signaling_NaN(), non_finite_gradient},
        Case{4096, Limits::infinity(), non_finite_gradient}, Case{0, Limits::max(), 0},
        Case{count - 1, Limits::lowest(), 0}, Case{7, Limits::denorm_min(), 0}}) {
    INFO(c.value << " at " << c.where);
    std::vector<T> values(count, T(0));
    values[c.where] = c.value;
    const DeviceValues<T> device_values(values);
    const DeviceScalars<T> scalars;
    check_finite(device_values.span(), scalars.data(), stream);
    CHECK(scalars.read(stream).flags == c.flags);
  }
}

TEMPLATE_TEST_CASE("flags stay raised, sums do not", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const DeviceScalars<T> scalars;
  scalars.write({T(1), T(2), T(3), 0, non_finite_loss});
  const DeviceValues<T> values(3, std::numeric_limits<T>::infinity());
  check_finite(values.span(), scalars.data(), stream);
  clear_sums(scalars.data(), stream);
  const StepScalars<T> read = scalars.read(stream);
  CHECK(read.loss_sum == T(0));
  CHECK(read.correct == T(0));
  CHECK(read.gradient_norm == T(0));
  CHECK(read.flags == (non_finite_loss | non_finite_gradient));
}

TEMPLATE_TEST_CASE("CL-01: the gradient (3, 4) is clipped by its global norm", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  struct Case {
    double max_norm;
    std::vector<double> clipped;
    double norm;
  };
  for (const Case& c : {Case{1, {0.6, 0.8}, 5}, Case{10, {3, 4}, 5}, Case{5, {3, 4}, 5},
                        Case{0, {3, 4}, 0}}) {  // 0: no clipping, and no norm
    INFO("largest norm " << c.max_norm);
    const DeviceValues<T> gradient(as<T>({3, 4}));
    const DeviceScalars<T> scalars;
    GradientClipper<T>(c.max_norm, 2).clip(gradient.span(), scalars.data(), stream);
    check_close(gradient.read(stream), c.clipped, c.max_norm == 1 ? 1 : 0);
    CHECK(scalars.read(stream).gradient_norm == static_cast<T>(c.norm));  // before clipping
    CHECK(scalars.read(stream).flags == 0);
  }
}

TEMPLATE_TEST_CASE("the norm takes every element of a large gradient", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  // Whole numbers: 2 at the ends and around the tiles' borders, 1 elsewhere. 40,000 elements: sum
  // of squares 40,000 + 3 * 4 = 40,012.
  std::vector<T> values(40'000, T(1));
  for (const std::size_t i : {0, 32'767, 32'768, 39'999}) values[i] = T(2);
  const DeviceValues<T> gradient(values);
  const DeviceScalars<T> scalars;
  GradientClipper<T>(1, values.size()).clip(gradient.span(), scalars.data(), stream);
  const double norm = std::sqrt(40'012.0);
  check_close<T>({scalars.read(stream).gradient_norm}, {norm}, 1, norm);
  std::vector<double> expected;
  for (const T value : values) expected.push_back(static_cast<double>(value) / norm);
  check_close(gradient.read(stream), expected, 1, 0.01);
}

TEMPLATE_TEST_CASE("a zero gradient has norm 0 and stays zero; an overflowing norm is reported", "",
                   float, double) {
  using T = TestType;
  const cuda::Stream stream;
  const GradientClipper<T> clipper(1, 3);
  const DeviceScalars<T> scalars;
  const DeviceValues<T> zero(3, T(0));
  clipper.clip(zero.span(), scalars.data(), stream);
  CHECK(zero.read(stream) == std::vector<T>(3, T(0)));
  CHECK(scalars.read(stream).gradient_norm == T(0));
  CHECK(scalars.read(stream).flags == 0);
  const DeviceValues<T> huge(3, std::numeric_limits<T>::max());
  clipper.clip(huge.span(), scalars.data(), stream);
  CHECK(scalars.read(stream).flags == non_finite_gradient);
}

TEMPLATE_TEST_CASE("SGD touches each pack of four once and nothing else", "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const std::size_t packs : {1, 255, 257}) {
    std::vector<T> values, velocities, gradients, new_values, new_velocities;
    for (std::size_t i = 0; i < 4 * packs; ++i) {
      const auto x = static_cast<T>(i % 13);
      values.push_back(x);
      velocities.push_back(2 * x);
      gradients.push_back(3 - x);
      new_velocities.push_back(T(0.5) * 2 * x + 3 - x + T(0.25) * x);  // exact: quarters
      new_values.push_back(x - T(0.5) * new_velocities.back());
    }
    const DeviceValues<T> device_values(values), device_velocities(velocities),
        device_gradients(gradients);
    const DeviceValues<unsigned> flags(2, 0U);
    cuda::launch<sgd_kernel<T>>({stream, cuda::blocks_for(packs, 256), 256},
                                reinterpret_cast<Pack<T>*>(device_values.data()),
                                reinterpret_cast<Pack<T>*>(device_velocities.data()),
                                reinterpret_cast<const Pack<T>*>(device_gradients.data()), packs,
                                T(0.5), T(0.5), T(0.25), flags.data(), flags.data() + 1);
    CHECK(device_values.read(stream) == new_values);
    CHECK(device_velocities.read(stream) == new_velocities);
    CHECK(device_gradients.read(stream) == gradients);
    CHECK(flags.read(stream) == std::vector<unsigned>{0, 0});
  }
}

TEMPLATE_TEST_CASE("SGD updates every element of parameters whose sizes are no multiple of four",
                   "", float, double) {
  using T = TestType;
  const cuda::Stream stream;
  for (const int size : {1, 2, 3, 5, 63, 65, 255, 257}) {
    INFO("size " << size);
    const ParameterStore<T> store({{"a", {size, 1}, true}, {"b", {size}, false}}, stream);
    const std::vector<T> gradient(static_cast<std::size_t>(size), T(2));
    for (const std::size_t p : {0, 1}) {
      cuda::upload(store.gradient(p).data(), std::span<const T>(gradient), stream);
    }
    Options options;
    options.momentum = 0;
    const DeviceScalars<T> scalars;
    Sgd<T>(options, store, stream).step(store, 0.5, scalars.data(), stream);
    std::vector<T> expected(store.values().size(), T(0));  // padding stays zero
    for (const Parameter& p : store.parameters()) {
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(p.offset), p.count, T(-1));
    }
    CHECK(download(store.values(), stream) == expected);
    CHECK(scalars.read(stream).flags == 0);
  }
}

TEMPLATE_TEST_CASE("CK-05: w = 1, v = 2, g = 1, momentum 0.9, rate 0.1 give w = 0.72", "", float,
                   double) {
  using T = TestType;
  Options options;
  options.momentum = 0.9;
  Toy<T> toy(options, T(1), T(0));
  toy.set(toy.sgd.velocities(), T(2));
  toy.set(toy.parameters.gradient(0), T(1));
  toy.step(0.1);
  check_close<T>({toy.weight()}, {0.72}, 1);
  check_close<T>({toy.get(toy.sgd.velocities())}, {2.8}, 1, 2);
}

TEMPLATE_TEST_CASE("the first step has v = g; momentum builds up from there", "", float, double) {
  using T = TestType;
  Options options;
  options.momentum = 0.9;
  Toy<T> toy(options, T(0), T(0));
  toy.set(toy.parameters.gradient(0), T(1));
  toy.step(0.1);
  check_close<T>({toy.weight()}, {-0.1}, 1);
  toy.step(0.1);
  check_close<T>({toy.weight()}, {-0.29}, 1);  // v = 1.9
}

TEMPLATE_TEST_CASE("LR-04: weights decay once, biases do not", "", float, double) {
  using T = TestType;
  Options options = plain();
  options.weight_decay = 0.1;
  Toy<T> toy(options, T(2), T(2));
  toy.step(1);
  check_close<T>({toy.weight()}, {1.8}, 1);
  CHECK(toy.bias() == T(2));
}

TEMPLATE_TEST_CASE("FA-03: with a flag raised nothing is updated any more", "", float, double) {
  using T = TestType;
  for (const unsigned flag :
       {non_finite_loss, non_finite_gradient, non_finite_update, label_out_of_range}) {
    Toy<T> toy(plain(), T(3), T(4));
    toy.set(toy.parameters.gradient(0), T(1));
    toy.scalars.write({T(0), T(0), T(0), 0, flag});
    toy.step(0.5);
    CHECK(toy.weight() == T(3));
    CHECK(toy.get(toy.sgd.velocities()) == T(0));
    CHECK(toy.scalars.read(toy.stream).flags == flag);
    toy.scalars.write({});
    toy.step(0.5);
    CHECK(toy.weight() == T(2.5));
  }
}

TEMPLATE_TEST_CASE("FA-03: an update that would overflow keeps the old value and is reported", "",
                   float, double) {
  using T = TestType;
  constexpr T largest = std::numeric_limits<T>::max();
  SECTION("by the learning rate") {
    Toy<T> toy(plain(), T(1), T(1));
    toy.set(toy.parameters.gradient(0), largest);
    toy.set(toy.parameters.gradient(1), T(1));
    toy.step(4);
    CHECK(toy.weight() == T(1));
    CHECK(toy.get(toy.sgd.velocities()) == T(0));
    CHECK(toy.bias() == T(-3));  // finite, so it was applied
    CHECK(toy.scalars.read(toy.stream).flags == non_finite_update);
    toy.step(0.5);  // and from then on nothing is
    CHECK(toy.bias() == T(-3));
  }
  SECTION("by the velocity") {
    Options options;
    options.momentum = 0.9;
    Toy<T> toy(options, T(1), T(1));
    toy.set(toy.sgd.velocities(), largest);
    toy.set(toy.parameters.gradient(0), largest);
    toy.step(0);
    CHECK(toy.weight() == T(1));
    CHECK(toy.get(toy.sgd.velocities()) == largest);
    CHECK(toy.scalars.read(toy.stream).flags == non_finite_update);
  }
}

}  // namespace ddp
