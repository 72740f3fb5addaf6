// Steps of several ranks on the toy of one weight: a model 1-1 without its bias, input 1, loss
// (w - t)^2 / 2, so that the gradient of a sample is w - t.

#include <numeric>
#include <string>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/sgd.cuh"
#include "02_grad_accum/accumulator.cuh"
#include "03_naive_allreduce/rank_cut.hpp"
#include "05_nccl_ddp/step_reducer.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

// The weight after each of `steps` steps, from 0, with the targets -2, -4, -6 and -8.
template <class T>
std::vector<T> toy_steps(Options options, int steps) {
  const std::vector<T> targets = {-2, -4, -6, -8};
  options.layers = {1, 1};
  options.loss = LossKind::mse;
  options.global_batch = 4;
  options.momentum = 0;
  options.allreduce = AllReduceKind::nccl;
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  Model<T> model(options, options.global_batch, stream, step_extras(ranks.size()));
  const ParameterStore<T>& parameters = model.parameters();
  cuda::clear_async(parameters.values().data(), parameters.values().size(), stream);
  const Loss<T> loss(options.loss, 1, options.global_batch);
  GradientAccumulator<T> accumulator(options, parameters, 4);
  const Sgd<T> sgd(options, parameters, stream);
  const DeviceScalars<T> scalars;
  StepReducer<T> reducer(options, parameters, scalars.data(), ranks, true, stream);

  const std::vector<std::uint32_t> ids = {0, 1, 2, 3};
  std::vector<T> weights;
  for (int number = 1; number <= steps; ++number) {
    Step step{number, 1, ids, {}};
    for (const SampleIds part : rank_cut(options)(ids, ranks.rank(), ranks.size())) {
      step.micro_batches.push_back({number, static_cast<int>(step.micro_batches.size()), part});
    }
    const auto before = ranks.traffic().collectives;
    clear_sums(scalars.data(), stream);
    for (const MicroBatch& micro : step.micro_batches) {
      CHECK(ranks.traffic().collectives == before);  // none under no_sync
      std::vector<T> mine;
      for (const std::uint32_t id : micro.samples) mine.push_back(targets[id]);
      const DeviceValues<T> inputs(std::vector<T>(mine.size(), T(1)));
      const DeviceValues<T> wanted(mine);
      const Batch<T> batch{inputs.data(), nullptr, wanted.data(), static_cast<int>(mine.size())};
      const T* outputs = model.forward(batch.inputs, batch.count);
      const T* gradient =
          loss.forward_backward(outputs, batch, step.count(), scalars.data(), stream);
      model.backward(gradient, accumulator.beta(micro),
                     reducer.during_backward(step, micro, false));
      accumulator.add(micro, step, scalars.data(), stream);
      stream.synchronize();  // the inputs go
    }
    reducer.finish(false);
    CHECK(ranks.traffic().collectives - before == static_cast<std::int64_t>(reducer.plan().size()));
    sgd.step(parameters, options.learning_rate, scalars.data(), stream);
    // The bias stays out of it.
    cuda::clear_async(parameters.value(1).data(), 1, stream);
    weights.push_back(cuda::download(parameters.value(0).data(), 1, stream)[0]);
  }
  return weights;
}

// Cut in every way: buckets, micro-batches, with and without overlap.
template <class Check>
void for_all_cuts(const Check& check) {
  for (const int micro_batch : {0, 1}) {
    for (const double cap : {0.0, 1.0}) {
      for (const bool overlap : {false, true}) {
        INFO("micro-batch " << micro_batch << ", cap " << cap << ", overlap " << overlap);
        Options options;
        options.micro_batch = micro_batch;
        options.bucket_mb = options.first_bucket_mb = cap;
        options.overlap = overlap;
        check(options);
      }
    }
  }
}

TEST_CASE("DD-01: gradients 2, 4, 6, 8 of four samples on any ranks give the weight -0.5") {
  for_all_cuts([](Options options) {
    options.learning_rate = 0.1;
    CHECK(toy_steps<float>(options, 1) == std::vector<float>{-0.5F});
  });
}

TEST_CASE("DD-02 b: ranks with different buckets learn of it when they make their reducers") {
  if (world().size() == 1) return;
  Options options;
  options.bucket_mb = options.first_bucket_mb = world().rank() == 0 ? 0.0 : 1.0;
  CHECK(error_of<AgreedError>([&] { toy_steps<float>(options, 1); }).find("bucket 0") !=
        std::string::npos);
}

TEST_CASE("GA-04: with accumulation, one all-reduce a bucket a step, of the sum of all gradients") {
  // Mean gradient w + 5, rate 1/2: -2.5, then -2.5 - 1.25, ... The first step does not overlap, the
  // later ones do.
  for_all_cuts([](Options options) {
    options.learning_rate = 0.5;
    CHECK(toy_steps<float>(options, 4) == std::vector<float>{-2.5F, -3.75F, -4.375F, -4.6875F});
    CHECK(toy_steps<double>(options, 4) == std::vector<double>{-2.5, -3.75, -4.375, -4.6875});
  });
}

}  // namespace
}  // namespace ddp
