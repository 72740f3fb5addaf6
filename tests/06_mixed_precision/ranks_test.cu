// Steps of several ranks in halves on small arrays, and on the toy of one weight: a model 1-1
// without its bias, input 1, loss (w - t)^2 / 2, so that the gradient of a sample is w - t.

#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/sgd.cuh"
#include "02_grad_accum/accumulator.cuh"
#include "03_naive_allreduce/rank_cut.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "06_mixed_precision/half_allreduce.hpp"
#include "06_mixed_precision/loss_scaler.cuh"
#include "06_mixed_precision/mixed_model.cuh"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/05_nccl_ddp/nccl_world.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

// --- the all-reduce
// -------------------------------------------------------------------------------

// One element of `mine` on each rank, added as halves T, or as they are.
template <class T>
float sum_as_halves(float mine) {
  const cuda::Stream stream;
  const DeviceValues<float> value({mine});
  HalfAllReduce<T> all_reduce(nccl_world(), value.span(), 1);
  all_reduce.sum(value.span(), stream);
  return value.read(stream)[0];
}
float sum_as_floats(float mine) {
  const cuda::Stream stream;
  const DeviceValues<float> value({mine});
  NcclAllReduce<float> all_reduce(nccl_world());
  all_reduce.sum(value.span(), stream);
  return value.read(stream)[0];
}

TEST_CASE("MP-01: averages of four ranks, in fp32 and with --reduce-dtype same") {
  if (world().size() != 4) return;
  // A gradient is divided by the global batch where it is born, so that each rank holds a quarter.
  // (a) 20000 each. The quarters add up even as halves; undivided the sum is infinite, which is
  // what the loss scaler looks for.
  CHECK(sum_as_floats(20000.0F / 4) == 20000);
  CHECK(sum_as_halves<__half>(20000.0F / 4) == 20000);
  CHECK(sum_as_halves<__half>(20000.0F) == HUGE_VALF);
  // (b) 2^-24 each, the smallest number of fp16. A quarter of it is lost as a half, unless the loss
  // was scaled.
  CHECK(sum_as_floats(0x1p-24F / 4) == 0x1p-24F);
  CHECK(sum_as_halves<__half>(0x1p-24F / 4) == 0);
  CHECK(sum_as_halves<__half>(1024 * 0x1p-24F / 4) / 1024 == 0x1p-24F);
  // (c) 256, 1, 1, 1 in bf16. In the order of the ranks, which is simulated NCCL's, 64 + 0.25 is 64
  // three times. Where an order begins with the small ones, 64 + 0.75 is 65. It is never 64.75.
  const float mine = (world().rank() == 0 ? 256.0F : 1.0F) / 4;
  CHECK(sum_as_floats(mine) == 64.75F);
  CHECK(static_cast<float>(__nv_bfloat16(sum_as_floats(mine))) == 65);
  const float in_halves = sum_as_halves<__nv_bfloat16>(mine);
  CHECK((in_halves == 64 || in_halves == 64.5F || in_halves == 65));
}

TEMPLATE_TEST_CASE("MP-01: gradients travel as halves, bucket by bucket, and nothing else does", "",
                   __half, __nv_bfloat16) {
  // Sums of at most 4 * 39 + 10 + 20 + 30: exact in both. The numbers behind the gradients would
  // not be: 2049.25 is 2048 as a half.
  constexpr std::size_t gradients = 300, extras = 5;
  const int n = world().size();
  const cuda::Stream stream;
  std::vector<float> mine, expected;
  for (std::size_t i = 0; i < gradients + extras; ++i) {
    const auto r = static_cast<float>(world().rank()), all = static_cast<float>(n);
    const float own = i < gradients ? static_cast<float>(i % 40) : 2049.25F + static_cast<float>(i);
    mine.push_back(own + 10 * r);
    expected.push_back(all * own + 5 * all * (all - 1));
  }
  for (const std::size_t begin : {std::size_t{0}, std::size_t{100}, gradients}) {
    const DeviceValues<float> values(mine);
    HalfAllReduce<TestType> all_reduce(nccl_world(), values.span(), gradients);
    const std::span<float> last = values.span().subspan(begin), first = values.span().first(begin);
    all_reduce.sum(last, stream);
    all_reduce.sum(first, stream);
    CHECK(values.read(stream) == expected);
    CHECK(all_reduce.bytes(last) == 2 * (gradients - begin) + 4 * extras);
    CHECK(all_reduce.bytes(first) == 2 * begin);
  }
}

TEST_CASE("MP-01: a gradient that no half can hold is rounded to one") {
  CHECK(sum_as_halves<__half>(2049) == 2048 * static_cast<float>(world().size()));
  CHECK(sum_as_floats(2049) == 2049 * static_cast<float>(world().size()));
}

// --- clipping
// -------------------------------------------------------------------------------------

TEST_CASE("CL-01 b: the norm is that of the mean over all ranks, without the loss scale") {
  // (6, 0) on the first rank and (0, 8) on the last, divided by the two of them; scale 1024.
  const int last = world().size() - 1;
  const float scale = 1024;
  const cuda::Stream stream;
  Options options;
  options.allreduce = AllReduceKind::nccl;
  const ParameterStore<float> parameters({{"weight", {1, 2}, true}}, stream,
                                         step_extras(world().size()));
  const LossScaler<float> scaler({.first = scale, .floor = scale, .ceiling = scale}, stream);
  const DeviceScalars<float> scalars;
  StepReducer<float> reducer(options, parameters, scalars.data(), world(), true, stream,
                             nccl_in<__half>(options, parameters));
  const std::vector<float> mine = {world().rank() == 0 ? scale * 6 / 2 : 0,
                                   world().rank() == last ? scale * 8 / 2 : 0};
  cuda::upload(parameters.gradient(0).data(), std::span(mine), stream);
  reducer.finish(false);
  scaler.unscale(parameters.gradients(), scalars.data(), stream);
  GradientClipper<float>(1, parameters.gradients().size())
      .clip(parameters.gradients(), scalars.data(), stream);
  CHECK(scalars.read(stream).gradient_norm == 5);
  check_close(download(parameters.gradient(0), stream), {0.6, 0.8}, 1);
}

// --- the toy
// --------------------------------------------------------------------------------------

// What a rank has after a step.
struct ToyStep {
  float weight, velocity;
  StepScalars<float> scalars;
  LossScaleState<float> state;
};

// The toy from `first_weight`; four samples a step, whose targets `targets` has.
template <class T>
std::vector<ToyStep> toy_steps(Options options, float first_weight,
                               const std::vector<std::vector<float>>& targets) {
  options.layers = {1, 1};
  options.loss = LossKind::mse;
  options.global_batch = 4;
  options.allreduce = AllReduceKind::nccl;
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  const LossScaler<float> scaler(options.loss_scale, stream);
  MixedModel<T> model(options, options.global_batch, stream, scaler.scale(),
                      step_extras(ranks.size()));
  const ParameterStore<float>& parameters = model.parameters();
  const std::vector<float> first = {first_weight};
  cuda::upload(parameters.value(0).data(), std::span(first), stream);
  const Loss<float> loss(options.loss, 1, options.global_batch);
  GradientAccumulator<float> accumulator(options, parameters, 4);
  const Sgd<float> sgd(options, parameters, stream);
  const DeviceScalars<float> scalars;
  StepReducer<float> reducer(options, parameters, scalars.data(), ranks, true, stream,
                             nccl_in<T>(options, parameters));
  const std::vector<std::uint32_t> ids = {0, 1, 2, 3};
  std::vector<ToyStep> result;
  for (const std::vector<float>& wanted : targets) {
    const int number = static_cast<int>(result.size()) + 1;
    Step step{number, 1, ids, {}};
    for (const SampleIds part : rank_cut(options)(ids, ranks.rank(), ranks.size())) {
      step.micro_batches.push_back({number, static_cast<int>(step.micro_batches.size()), part});
    }
    clear_sums(scalars.data(), stream);
    model.cast_weights();
    for (const MicroBatch& micro : step.micro_batches) {
      std::vector<float> mine;
      for (const std::uint32_t id : micro.samples) mine.push_back(wanted[id]);
      const DeviceValues<float> inputs(mine.size(), 1.0F);
      const DeviceValues<float> device_targets(mine);
      const Batch<float> batch{inputs.data(), nullptr, device_targets.data(),
                               static_cast<int>(mine.size())};
      const float* outputs = model.forward(batch.inputs, batch.count);
      const float* gradient =
          loss.forward_backward(outputs, batch, step.count(), scalars.data(), stream);
      model.backward(gradient, accumulator.beta(micro),
                     reducer.during_backward(step, micro, false));
      accumulator.add(micro, step, scalars.data(), stream);
      stream.synchronize();  // the inputs go
    }
    reducer.finish(false);
    scaler.unscale(parameters.gradients(), scalars.data(), stream);
    sgd.step(parameters, options.learning_rate, scalars.data(), stream);
    scaler.update(scalars.data(), stream);
    const std::vector<float> state = download(scaler.state().values, stream);
    result.push_back({download(parameters.value(0), stream)[0],
                      download(sgd.velocities().first(1), stream)[0],
                      scalars.read(stream),
                      {state[0], state[1], state[2], state[3]}});
    // The bias stays out of it.
    cuda::clear_async(parameters.value(1).data(), 1, stream);
    cuda::clear_async(sgd.velocities().data() + parameters.parameters()[1].offset, 1, stream);
  }
  return result;
}

// In micro-batches or not, in buckets that overlap or in one, added in fp32 or in halves.
template <class Check>
void for_all_cuts(const Check& check) {
  for (const int micro_batch : {0, 1}) {
    for (const bool overlap : {false, true}) {
      for (const ReduceType reduce : {ReduceType::fp32, ReduceType::same}) {
        INFO("micro-batch " << micro_batch << ", overlap " << overlap << ", reduced in "
                            << (reduce == ReduceType::fp32 ? "fp32" : "halves"));
        Options options;
        options.momentum = 0;
        options.micro_batch = micro_batch;
        options.bucket_mb = options.first_bucket_mb = overlap ? 0 : 1;
        options.overlap = overlap;
        options.reduce_type = reduce;
        options.loss_scale = {.first = 1024, .floor = 1024, .ceiling = 1024};
        check(options);
      }
    }
  }
}

TEMPLATE_TEST_CASE("DD-01: gradients 2, 4, 6, 8 in halves give the weight -0.5 on any ranks", "",
                   __half, __nv_bfloat16) {
  for_all_cuts([](Options options) {
    options.learning_rate = 0.1;
    const ToyStep after = toy_steps<TestType>(options, 0, {{-2, -4, -6, -8}}).front();
    CHECK(after.weight == -0.5F);
    CHECK(after.scalars.loss_sum == 2 + 8 + 18 + 32);
    CHECK(after.scalars.loss_scale == 1024);
  });
}

TEST_CASE("LR-04: the decay is neither scaled nor unscaled, and there once") {
  Options options;
  options.momentum = 0;
  options.micro_batch = 1;
  options.weight_decay = 0.1;
  options.learning_rate = 1;
  options.loss_scale = {.first = 1024, .floor = 1024, .ceiling = 1024};
  CHECK(toy_steps<__half>(options, 2, {{2, 2, 2, 2}}).front().weight == 1.8F);
}

TEST_CASE("LR-04: a bias does not decay") {
  const cuda::Stream stream;
  Options options;
  options.layers = {1, 1};
  options.momentum = 0;
  options.weight_decay = 0.1;
  const DeviceValues<float> scale({1024.0F});
  const MixedModel<__half> model(options, 1, stream, scale.data());
  const Sgd<float> sgd(options, model.parameters(), stream);
  const DeviceScalars<float> scalars;
  const std::vector<float> two = {2.0F};
  for (std::size_t p = 0; p < 2; ++p) {
    cuda::upload(model.parameters().value(p).data(), std::span(two), stream);
  }
  sgd.step(model.parameters(), 1, scalars.data(), stream);
  CHECK(download(model.parameters().value(0), stream)[0] == 1.8F);
  CHECK(download(model.parameters().value(1), stream)[0] == 2.0F);
}

// The last rank's last sample is so far off that its scaled gradient is infinite in fp16: 400000 /
// 4
// * 65536 is, and not only it. The loss is finite.
const std::vector<float> normal = {-0.25F, -0.5F, -0.75F, -1},
                         far_off = {-0.25F, -0.5F, -0.75F, -4e5F};

TEST_CASE("MP-02 a: what overflows on one rank is skipped by all, and counted by none") {
  for_all_cuts([](Options options) {
    options.loss_scale = {.first = 65536, .floor = 1, .ceiling = 16777216};
    options.momentum = 0.5;
    options.learning_rate = 0.125;
    const std::vector<ToyStep> steps =
        toy_steps<__half>(options, 0, {far_off, normal, far_off, normal});
    // The first gradient of the normal targets is 5/8: w = 0 - 1/8 * 5/8 = -5/64. The next is
    // 35/64, v = 1/2 * 5/8 + 35/64 = 55/64, w = -5/64 - 55/512. The sums fit into halves, scaled or
    // not.
    const std::vector<float> weights = {0, -5 / 64.0F, -5 / 64.0F, -95 / 512.0F};
    const std::vector<float> velocities = {0, 5 / 8.0F, 5 / 8.0F, 55 / 64.0F};
    const std::vector<float> applied = {0, 1, 1, 2}, skipped = {1, 1, 2, 2};
    const std::vector<float> scale = {32768, 32768, 16384, 16384};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(steps[i].weight == weights[i]);
      CHECK(steps[i].velocity == velocities[i]);
      CHECK(steps[i].scalars.skip == (i % 2 == 0 ? 1 : 0));
      CHECK(steps[i].scalars.flags == 0);
      CHECK(steps[i].scalars.loss_scale == (i == 0 ? 65536 : i == 3 ? 16384 : 32768));
      // A schedule counts the steps that were applied before this one.
      CHECK(steps[i].scalars.applied == (i < 2 ? 0 : 1));
      CHECK(steps[i].state.scale == scale[i]);
      CHECK(steps[i].state.applied == applied[i]);
      CHECK(steps[i].state.skipped == skipped[i]);
    }
  });
}

TEST_CASE("MP-02: with accumulation the whole step is skipped, whichever part has overflowed") {
  for (std::size_t sample = 0; sample < 4; ++sample) {
    INFO("sample " << sample);
    Options options;
    options.micro_batch = 1;
    options.momentum = 0;
    options.learning_rate = 0.125;
    options.loss_scale = {.first = 65536, .floor = 1, .ceiling = 65536};
    std::vector<float> targets = normal;
    targets[sample] = 4e5F;
    const std::vector<ToyStep> steps = toy_steps<__half>(options, 0, {targets, normal});
    CHECK(steps[0].scalars.skip == 1);
    CHECK(steps[0].weight == 0);
    CHECK(steps[1].weight == -5 / 64.0F);  // nothing of the infinity is left
  }
}

TEST_CASE("MP-02: a loss that is NaN is a failure that names its rank, overflow or not") {
  Options options;
  options.loss_scale = {.first = 65536, .floor = 1, .ceiling = 65536};
  std::vector<float> targets = normal;
  targets[3] = std::numeric_limits<float>::quiet_NaN();
  const std::vector<ToyStep> steps = toy_steps<__half>(options, 0, {targets, normal});
  CHECK((steps[0].scalars.flags & non_finite_loss) != 0);
  CHECK(static_cast<int>(steps[0].scalars.raised_by) == std::min(world().size(), 4));
  for (const ToyStep& step : steps) CHECK(step.weight == 0);  // nor is any later step applied
}

}  // namespace
}  // namespace ddp
