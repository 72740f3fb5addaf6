// Both forms of momentum by hand, decay on several ranks, and the promise with rates that change.

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "01_single_gpu/evaluate.cuh"
#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/cut.hpp"
#include "03_naive_allreduce/rank_cut.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "07_scaling_rules/momentum_sgd.cuh"
#include "07_scaling_rules/train.hpp"
#include "common/run/agree.hpp"
#include "common/run/run.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

constexpr MomentumForm both_forms[] = {MomentumForm::gradient, MomentumForm::velocity};
const char* text(MomentumForm form) {
  return form == MomentumForm::gradient ? "gradient" : "velocity";
}

RateSchedule constant(double rate) {
  return {.target = rate,
          .warmup_from = 0,
          .warmup_steps = 0,
          .total_steps = 1,
          .kind = Schedule::constant,
          .decay_every = 1,
          .decay_factor = 1};
}

// One weight and one bias with gradients of 1.
template <class T>
struct Toy {
  explicit Toy(const Options& options)
      : parameters({{"weight", {1, 1}, true}, {"bias", {1}, false}}, stream),
        sgd(options, parameters, stream) {
    const std::vector<T> one = {T(1)};
    for (const std::size_t p : {0, 1}) cuda::upload<T>(parameters.gradient(p).data(), one, stream);
  }
  double step(double rate) {
    sgd.step(parameters, constant(rate), scalars.data(), stream);
    return static_cast<double>(cuda::download(parameters.value(0).data(), 1, stream)[0]);
  }
  double updates() { return static_cast<double>(download(sgd.state().values, stream)[0]); }
  double last_rate() { return static_cast<double>(download(sgd.state().values, stream)[1]); }

  cuda::Stream stream;
  ParameterStore<T> parameters;
  MomentumSgd<T> sgd;
  DeviceScalars<T> scalars;
};

template <class T>
bool close(double found, double expected) {
  return std::abs(found - expected) <=
         2 * static_cast<double>(std::numeric_limits<T>::epsilon()) * std::abs(expected);
}

TEMPLATE_TEST_CASE("LR-03: rates 0.1 and 0.2 lead to -0.1 and -0.48 in both forms, not to -0.39",
                   "", float, double) {
  using T = TestType;
  for (const MomentumForm form : both_forms) {
    INFO(text(form));
    Options options;
    options.momentum_form = form;
    Toy<T> toy(options);
    CHECK(close<T>(toy.step(0.1), -0.1));
    CHECK(close<T>(toy.step(0.2), -0.48));
    // u = 2.71: at a tenth of the rate, 0.271 less
    CHECK(close<T>(toy.step(0.1), -0.751));
    CHECK(close<T>(toy.last_rate(), 0.1));
    const double velocity = form == MomentumForm::gradient ? 2.71 : 0.271;
    CHECK(close<T>(static_cast<double>(download(toy.sgd.velocities(), toy.stream)[0]), velocity));
  }
}

TEMPLATE_TEST_CASE("LR-03: a skipped update changes neither weights nor the rate that was last", "",
                   float, double) {
  using T = TestType;
  for (const MomentumForm form : both_forms) {
    INFO(text(form));
    Options options;
    options.momentum_form = form;
    Toy<T> toy(options);
    toy.step(0.1);
    toy.scalars.write({T(0), T(0), T(0), 0, non_finite_gradient});
    CHECK(close<T>(toy.step(0.7), -0.1));
    CHECK(close<T>(toy.last_rate(), 0.1));
    CHECK(toy.updates() == 1);
    toy.scalars.write({});
    CHECK(close<T>(toy.step(0.2), -0.48));
    CHECK(toy.updates() == 2);
  }
}

TEMPLATE_TEST_CASE("LR-01: a skipped update does not advance the schedule, and the rate is told",
                   "", float, double) {
  using T = TestType;
  Options options;
  options.momentum = 0;
  Toy<T> toy(options);
  RateSchedule ramp = constant(0.2);
  ramp.warmup_steps = 5;
  const auto step = [&](unsigned flags) {
    toy.scalars.write({T(0), T(0), T(0), 0, flags});
    toy.sgd.step(toy.parameters, ramp, toy.scalars.data(), toy.stream);
    return toy.scalars.read(toy.stream).learning_rate;
  };
  CHECK(close<double>(step(0), 0.04));
  CHECK(close<double>(step(non_finite_gradient), 0.08));
  CHECK(close<double>(step(0), 0.08));
  CHECK(close<double>(step(0), 0.12));
  CHECK(close<T>(static_cast<double>(download(toy.parameters.value(0), toy.stream)[0]), -0.24));
}

TEMPLATE_TEST_CASE("FA-03: the velocity form keeps what an update would make non-finite", "", float,
                   double) {
  using T = TestType;
  Options options;
  options.momentum_form = MomentumForm::velocity;
  Toy<T> toy(options);
  const std::vector<T> largest = {std::numeric_limits<T>::max()};
  cuda::upload<T>(toy.parameters.gradient(0).data(), largest, toy.stream);
  CHECK(toy.step(4) == 0);
  CHECK(toy.scalars.read(toy.stream).flags == non_finite_update);
  CHECK(download(toy.sgd.velocities(), toy.stream)[0] == T(0));
  CHECK(download(toy.parameters.value(1), toy.stream)[0] == T(-4));  // finite, so it was applied
}

TEMPLATE_TEST_CASE("The velocity form updates every element of sizes that are no multiple of four",
                   "", float, double) {
  using T = TestType;
  for (const int size : {1, 3, 5, 257, 1030}) {
    INFO("size " << size);
    const cuda::Stream stream;
    const ParameterStore<T> store({{"a", {size, 1}, true}, {"b", {size}, false}}, stream);
    const std::vector<T> gradient(static_cast<std::size_t>(size), T(2));
    for (const std::size_t p : {0, 1}) cuda::upload<T>(store.gradient(p).data(), gradient, stream);
    Options options;
    options.momentum = 0.5;
    options.momentum_form = MomentumForm::velocity;
    const DeviceScalars<T> scalars;
    const MomentumSgd<T> sgd(options, store, stream);
    sgd.step(store, constant(0.5), scalars.data(), stream);  // v = 1
    sgd.step(store, constant(1), scalars.data(), stream);    // v = 0.5 * 2 * 1 + 2
    std::vector<T> expected(store.values().size(), T(0));    // padding stays zero
    for (const Parameter& p : store.parameters()) {
      std::fill_n(expected.begin() + static_cast<std::ptrdiff_t>(p.offset), p.count, T(-4));
    }
    CHECK(download(store.values(), stream) == expected);
  }
}

// The weight and the bias after one step from 2 and 2 with a zero gradient: the targets are what a
// model 1-1 gives for the input 1. Sixteen samples, so that four ranks have four micro-batches.
template <class T>
std::vector<double> decayed(Options options) {
  options.layers = {1, 1};
  options.loss = LossKind::mse;
  options.global_batch = 16;
  options.micro_batch = 1;
  options.weight_decay = 0.1;
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  Model<T> model(options, 1, stream, step_extras(ranks.size()));
  const ParameterStore<T>& parameters = model.parameters();
  const std::vector<T> two = {T(2)};
  for (const std::size_t p : {0, 1}) cuda::upload<T>(parameters.value(p).data(), two, stream);
  const Loss<T> loss(options.loss, 1, 1);
  GradientAccumulator<T> accumulator(options, parameters, 16);
  const MomentumSgd<T> sgd(options, parameters, stream);
  const DeviceScalars<T> scalars;
  StepReducer<T> reducer(options, parameters, scalars.data(), ranks, true, stream);
  const std::vector<std::uint32_t> ids(16, 0U);
  Step step{1, 1, ids, {}};
  for (const SampleIds part : rank_cut(options)(ids, ranks.rank(), ranks.size())) {
    step.micro_batches.push_back({1, static_cast<int>(step.micro_batches.size()), part});
  }
  const DeviceValues<T> input(1, T(1)), target(1, T(4));
  for (const MicroBatch& micro : step.micro_batches) {
    const Batch<T> batch{input.data(), nullptr, target.data(),
                         static_cast<int>(micro.samples.size())};
    const T* outputs = model.forward(batch.inputs, batch.count);
    const T* gradient = loss.forward_backward(outputs, batch, step.count(), scalars.data(), stream);
    model.backward(gradient, accumulator.beta(micro), reducer.during_backward(step, micro, false));
    accumulator.add(micro, step, scalars.data(), stream);
  }
  reducer.finish(false);
  sgd.step(parameters, constant(1), scalars.data(), stream);
  return {static_cast<double>(download(parameters.value(0), stream)[0]),
          static_cast<double>(download(parameters.value(1), stream)[0])};
}

TEMPLATE_TEST_CASE("LR-04: a weight of 2 decays once, to 1.8, and its bias not at all", "", float,
                   double) {
  using T = TestType;
  for (const MomentumForm form : both_forms) {
    for (const AllReduceKind kind : {AllReduceKind::naive, AllReduceKind::nccl}) {
      INFO(text(form));
      Options options;
      options.momentum = 0;
      options.momentum_form = form;
      options.allreduce = kind;
      const std::vector<double> mine = decayed<T>(options);
      for (const double weight : all_gather_value(world(), mine[0])) CHECK(close<T>(weight, 1.8));
      for (const double bias : all_gather_value(world(), mine[1])) CHECK(bias == 2);
    }
  }
}

constexpr std::size_t steps = 12;

// Up to 0.1 in four updates, then down half a wave; some gradients are clipped.
Options small_run() {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 8, 4};
  options.global_batch = 24;  // 1, 2, 3 and 4 divide it
  options.base_learning_rate = 0.05;
  options.base_batch = 12;
  options.warmup_steps = 4;
  options.schedule = Schedule::cosine;
  options.steps = static_cast<std::int64_t>(steps);
  options.clip_norm = 0.7;
  options.weight_decay = 0.01;
  options.check_replicas = 1;
  options.quiet = true;
  options.device = environment().device();
  options.allreduce = AllReduceKind::nccl;
  return options;
}

void check_rates(const TrainingResult& result) {
  REQUIRE(result.steps.size() == steps);
  for (std::size_t i = 0; i < steps; ++i) {
    const double update = static_cast<double>(i) + 1;
    const double expected =
        update < 4 ? 0.025 * update : 0.05 * (1 + std::cos(std::acos(-1.0) * (update - 4) / 9));
    INFO("update " << update);
    CHECK(close<double>(result.steps[i].learning_rate, expected));
  }
}

// One GPU with micro-batches: the loop of stage 02 with an `update(scalars)` of its own.
template <class T, class MakeUpdate>
TrainingResult one_gpu(const Options& options, const MakeUpdate& make_update) {
  const int micro_batch = micro_batch_size(options);
  Run<T> run("one GPU", options, micro_batch_cut(options), micro_batch);
  const cuda::Stream stream;
  Model<T> model(options, micro_batch, stream, loss_extras);
  const ParameterStore<T>& parameters = model.parameters();
  const Loss<T> loss(options.loss, options.layers.back(), micro_batch);
  GradientAccumulator<T> accumulator(options, parameters, leaf_count(options));
  const GradientClipper<T> clipper(options.clip_norm, parameters.gradients().size());
  auto update = make_update(parameters, run.training_data().size(), stream);
  StepScalars<T>* scalars = run.scalars(stream);
  for (const Step& step : run.steps()) {
    clear_sums(scalars, stream);
    for (const MicroBatch& micro : step.micro_batches) {
      const Batch<T> batch = run.load(micro, stream);
      const T* outputs = model.forward(batch.inputs, batch.count);
      const T* gradient = loss.forward_backward(outputs, batch, step.count(), scalars, stream);
      model.backward(gradient, accumulator.beta(micro));
      accumulator.add(micro, step, scalars, stream);
    }
    clipper.clip(parameters.gradients(), scalars, stream);
    update(scalars);
    run.record(step, scalars, stream);
  }
  const auto all = all_samples(run.test_data());
  return run.finish(parameters.value_views(), evaluate(model, loss, run.test_data(), all, stream),
                    stream);
}

// By the optimizer of stage 01, at the rates that a run has reported.
template <class T>
TrainingResult at_rates(const Options& options, const std::vector<StepRecord>& rates) {
  return one_gpu<T>(options, [&](const ParameterStore<T>& parameters, int, cudaStream_t stream) {
    const auto sgd = std::make_shared<Sgd<T>>(options, parameters, stream);
    return
        [&parameters, &rates, sgd, stream, next = std::size_t{0}](StepScalars<T>* scalars) mutable {
          sgd->step(parameters, rates.at(next++).learning_rate, scalars, stream);
        };
  });
}
template <class T>
TrainingResult by_schedule(const Options& options) {
  return one_gpu<T>(
      options, [&](const ParameterStore<T>& parameters, int samples, cudaStream_t stream) {
        const auto sgd = std::make_shared<MomentumSgd<T>>(options, parameters, stream);
        const RateSchedule schedule = rate_schedule(options, samples);
        return [&parameters, sgd, schedule, stream](StepScalars<T>* scalars) {
          sgd->step(parameters, schedule, scalars, stream);
        };
      });
}
template <class T>
TrainingResult on_one(const Options& options, const std::vector<StepRecord>& rates) {
  return options.momentum_form == MomentumForm::gradient ? at_rates<T>(options, rates)
                                                         : by_schedule<T>(options);
}

TEST_CASE("GA-03 A: with rates that change, N GPUs give the bits of one with N micro-batches") {
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    for (const MomentumForm form : both_forms) {
      for (const AllReduceKind kind : {AllReduceKind::naive, AllReduceKind::nccl}) {
        INFO(text(form));
        Options options = small_run();
        options.precision = precision;
        options.momentum_form = form;
        options.allreduce = kind;
        const TrainingResult many = scaling_rules::train(options, world());
        check_rates(many);
        options.micro_batch = options.global_batch / world().size();
        const TrainingResult one = precision == Precision::fp64
                                       ? on_one<double>(options, many.steps)
                                       : on_one<float>(options, many.steps);
        // Real NCCL has an order of addition of its own.
        if (kind == AllReduceKind::nccl && !many.simulated && world().size() > 2) continue;
        for (std::size_t i = 0; i < steps; ++i) CHECK(many.steps[i].loss == one.steps[i].loss);
        CHECK(many.parameter_checksum == one.parameter_checksum);
      }
    }
  }
}

TEST_CASE("GA-03 B: in fp64 both forms give the losses of one GPU within 1e-12") {
  Options options = small_run();
  options.precision = Precision::fp64;
  options.global_batch = 25;  // 2, 3 and 4 do not divide it
  options.base_batch = 10;
  options.base_learning_rate = 0.04;
  options.micro_batch = 4;
  TrainingResult one;
  for (const MomentumForm form : both_forms) {
    INFO(text(form));
    options.momentum_form = form;
    const TrainingResult many = scaling_rules::train(options, world());
    check_rates(many);
    if (one.steps.empty()) one = at_rates<double>(options, many.steps);  // in the gradient form
    for (std::size_t i = 0; i < steps; ++i) {
      CHECK(std::abs(many.steps[i].loss - one.steps[i].loss) <= 1e-12 * one.steps[i].loss);
    }
  }
}

}  // namespace
}  // namespace ddp
