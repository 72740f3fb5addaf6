// One step of several ranks on the toy of one weight, whose gradient is known by hand: a model 1-1
// without its bias, input 1, loss (w - t)^2 / 2. From w = 0 with rate 1, one step lands on the mean
// of the targets.

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>
#include <vector>

#include "01_single_gpu/evaluate.cuh"
#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/reductions.cuh"
#include "01_single_gpu/sgd.cuh"
#include "02_grad_accum/accumulator.cuh"
#include "02_grad_accum/cut.hpp"
#include "03_naive_allreduce/naive_allreduce.hpp"
#include "03_naive_allreduce/rank_cut.hpp"
#include "03_naive_allreduce/replicas.hpp"
#include "03_naive_allreduce/step_sums.cuh"
#include "common/errors.hpp"
#include "common/run/agree.hpp"
#include "common/run/run.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/variant.hpp"

namespace ddp {
namespace {

struct Outcome {
  double weight;
  double loss;  ///< mean over the batch
};

template <class T>
Outcome toy_step(const std::vector<double>& targets, Options options) {
  options.layers = {1, 1};
  options.loss = LossKind::mse;
  options.global_batch = static_cast<int>(targets.size());
  options.momentum = 0;
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  Model<T> model(options, options.global_batch, stream, step_extras(ranks.size()));
  const ParameterStore<T>& parameters = model.parameters();
  cuda::clear_async(parameters.values().data(), parameters.values().size(), stream);
  const Loss<T> loss(options.loss, 1, options.global_batch);
  GradientAccumulator<T> accumulator(options, parameters, leaves_of_a_rank(options, ranks.size()));
  NaiveAllReduce<T> all_reduce(ranks, false);
  const Sgd<T> sgd(options, parameters, stream);
  const DeviceScalars<T> scalars;

  std::vector<std::uint32_t> ids(targets.size());
  std::iota(ids.begin(), ids.end(), 0U);
  Step step{1, 1, ids, {}};
  for (const SampleIds part : rank_cut(options)(ids, ranks.rank(), ranks.size())) {
    step.micro_batches.push_back({1, static_cast<int>(step.micro_batches.size()), part});
  }
  for (const MicroBatch& micro : step.micro_batches) {
    std::vector<T> mine;
    for (const std::uint32_t id : micro.samples) mine.push_back(static_cast<T>(targets[id]));
    const DeviceValues<T> inputs(std::vector<T>(mine.size(), T(1)));
    const DeviceValues<T> wanted(mine);
    const Batch<T> batch{inputs.data(), nullptr, wanted.data(), static_cast<int>(mine.size())};
    const T* outputs = model.forward(batch.inputs, batch.count);
    model.backward(loss.forward_backward(outputs, batch, step.count(), scalars.data(), stream),
                   accumulator.beta(micro));
    accumulator.add(micro, step, scalars.data(), stream);
    stream.synchronize();  // the inputs go
  }
  reduce_step(all_reduce, parameters, scalars.data(), ranks, options, false, stream);
  check_finite(parameters.gradients(), scalars.data(), stream);
  sgd.step(parameters, 1.0, scalars.data(), stream);
  const T weight = download(parameters.value(0), stream)[0];
  return {static_cast<double>(weight),
          static_cast<double>(scalars.read(stream).loss_sum) / step.count()};
}

// The same on every rank, with its value.
void check_everywhere(double value, double expected) {
  for (const double of_rank : all_gather_value(world(), value)) CHECK(of_rank == expected);
}

TEMPLATE_TEST_CASE(
    "GA-01, SH-03: one step lands on the mean of the targets, however they are shared out", "",
    float, double) {
  for (const bool by_parameter : {false, true}) {
    for (const int micro_batch : {0, 1, 2}) {
      for (const Accumulate accumulate : {Accumulate::running, Accumulate::pairwise}) {
        Options options;
        options.by_parameter = by_parameter;
        options.micro_batch = micro_batch;
        options.accumulate = accumulate;
        const bool tree = accumulate == Accumulate::pairwise;
        if (tree && (world().size() == 3 || micro_batch == 0)) continue;
        INFO("micro-batch " << micro_batch << (tree ? ", pairwise" : ""));
        // 7.25 would be the mean of four ranks' means, 4.5 the mean without the remainder.
        check_everywhere(toy_step<TestType>({1, 2, 3, 4, 5, 6, 7, 8, 9, 20}, options).weight, 6.5);
        double sum = 0;
        std::vector<double> targets;
        for (const std::size_t target : variant_counts(100, 8)) {
          targets.push_back(static_cast<double>(target));
          sum += targets.back();
        }
        check_everywhere(toy_step<TestType>(targets, options).weight, sum / 8);
        // 5 would be the mean of micro-batches' means, 20 the sum.
        const Outcome five = toy_step<TestType>({1, 2, 3, 4, 10}, options);
        check_everywhere(five.weight, 4);
        check_everywhere(five.loss, 13);  // half of the mean square, 130 / 5 / 2
      }
    }
  }
}

TEST_CASE("SH-02 (a): fewer samples than ranks; nobody divides by nothing") {
  // 2 would be divided by the number of ranks.
  const Outcome outcome = toy_step<double>({3, 5}, {});
  check_everywhere(outcome.weight, 4);
  check_everywhere(outcome.loss, (9.0 / 2 + 25.0 / 2) / 2);
}

TEST_CASE(
    "SH-01 (c): the loss is that of all samples, 2, not rank 0's 1 or the mean of the means 3") {
  const mpi::Communicator& ranks = world();
  if (ranks.size() != 2) return;
  const cuda::Stream stream;
  const ParameterStore<float> store({{"w", {1}, true}}, stream, step_extras(2));
  const DeviceScalars<float> scalars;
  scalars.write({ranks.rank() == 0 ? 3.0F : 5.0F, 0, 0, 0, 0});  // three samples of 1, one of 5
  NaiveAllReduce<float> all_reduce(ranks, false);
  reduce_step(all_reduce, store, scalars.data(), ranks, {}, false, stream);
  check_everywhere(static_cast<double>(scalars.read(stream).loss_sum) / 4, 2);
}

TEST_CASE("SH-01 (a): ten test samples, one of them wrong, are 0.9 for any number of ranks") {
  // Two pixels, two classes: a model that is the identity takes the brighter one.
  const TemporaryFolder folder;
  Bytes pixels, labels;
  for (unsigned s = 0; s < 10; ++s) {
    const bool first = s % 2 == 0;
    pixels.push_back(first ? 200 : 10);
    pixels.push_back(first ? 10 : 200);
    labels.push_back(first ? 0 : 1);
  }
  labels[0] = 1;  // sample 0 is wrong
  for (const std::string prefix : {"train", "t10k"}) {
    write_file(folder / (prefix + "-images-idx3-ubyte"), idx_bytes(0x803, {10, 1, 2}, pixels));
    write_file(folder / (prefix + "-labels-idx1-ubyte"), idx_bytes(0x801, {10}, labels));
  }
  Options options;
  options.data = folder.path().string();
  options.layers = {2, 2};
  options.steps = 0;
  options.quiet = true;
  const mpi::Communicator& ranks = world();
  Run<float> run("test", options, rank_cut(options), 4, ranks);
  const cuda::Stream stream;
  Model<float> model(options, 4, stream);
  cuda::upload<float>(model.parameters().value(0).data(), as<float>({1, 0, 0, 1}), stream);
  const Loss<float> loss(options.loss, 2, 4);
  const auto all = all_samples(run.test_data());
  const EvaluationSums mine =
      evaluate(model, loss, run.test_data(), shard_of(all, ranks.rank(), ranks.size()), stream);
  const TrainingResult result = run.finish({}, mine, stream);
  check_everywhere(result.test.accuracy, 0.9);
}

TEST_CASE("DD-01: gradients 2, 4, 6, 8 of four ranks, each divided by four where it is born") {
  const mpi::Communicator& ranks = world();
  Options options;
  options.momentum = 0;
  for (const bool device_pointers : {false, true}) {
    if (device_pointers && !environment().simulated()) continue;
    const cuda::Stream stream;
    const ParameterStore<float> store({{"w", {1, 1}, true}}, stream, step_extras(ranks.size()));
    const auto of_rank = [&](int rank) { return 2.0F * static_cast<float>(rank + 1); };
    const auto size = static_cast<float>(ranks.size());
    const std::vector<float> mine = {of_rank(ranks.rank()) / size};
    cuda::upload<float>(store.gradient(0).data(), mine, stream);
    const DeviceScalars<float> scalars;
    NaiveAllReduce<float> all_reduce(ranks, device_pointers);
    reduce_step(all_reduce, store, scalars.data(), ranks, options, false, stream);
    const Sgd<float> sgd(options, store, stream);
    sgd.step(store, 0.1, scalars.data(), stream);
    const double mean = ranks.size() + 1;  // (2 + 4 + ... + 2n) / n
    const auto gradient = static_cast<double>(download(store.gradient(0), stream)[0]);
    if (ranks.size() != 3) check_everywhere(gradient, mean);  // thirds are no floats
    if (ranks.size() == 4) {
      CHECK(gradient == 5);  // 20: not divided; 1.25: divided twice
      const float weight = download(store.value(0), stream)[0];
      check_everywhere(static_cast<double>(weight), static_cast<double>(-0.1F * 5.0F));
    }
  }
}

TEST_CASE("IN-01 (b): one order of addition, so that all ranks have the same bits") {
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  const std::vector<std::vector<float>> terms = {
      {1e8F, 1, -1e8F}, {1, -1e8F, 1e8F}, {-1e8F, 1e8F, 1}};
  std::vector<float> mine;  // 9 positions
  for (int i = 0; i < 9; ++i) {
    mine.push_back(
        terms[static_cast<std::size_t>(i) % 3][static_cast<std::size_t>(ranks.rank()) % 3]);
  }
  const DeviceValues<float> values(mine);
  NaiveAllReduce<float> all_reduce(ranks, false);
  all_reduce.sum(values.span(), stream);
  const std::vector<float> sum = values.read(stream);
  std::vector<float> expected;  // rank 0 first, then 1, then 2, each rounded to a float
  for (std::size_t i = 0; i < 9; ++i) {
    float total = terms[i % 3][0];
    for (int rank = 1; rank < ranks.size(); ++rank) {
      total += terms[i % 3][static_cast<std::size_t>(rank) % 3];
    }
    expected.push_back(total);
  }
  CHECK(sum == expected);
}

TEST_CASE(
    "Naive traffic: the root carries 2(N-1) buffers, the others two, in the counted messages") {
  const mpi::Communicator ranks;  // with counters of its own
  const cuda::Stream stream;
  const DeviceValues<double> values(1000, 1.0);
  NaiveAllReduce<double> all_reduce(ranks, false);
  all_reduce.sum(values.span(), stream);
  const int n = ranks.size();
  const Traffic traffic = ranks.traffic();
  const std::int64_t buffers = n == 1 ? 0 : ranks.rank() == 0 ? n - 1 : 1;
  CHECK(traffic.messages_sent == buffers);
  CHECK(traffic.bytes_sent == buffers * 8000);
  CHECK(traffic.messages_received == buffers);
  CHECK(traffic.bytes_received == buffers * 8000);
  const Traffic formula = naive_traffic(1000, sizeof(double), ranks.rank(), n);
  CHECK(formula.bytes_sent == traffic.bytes_sent);
  CHECK(formula.messages_sent == traffic.messages_sent);
  CHECK(values.read(stream) == std::vector<double>(1000, n));
}

TEST_CASE("IN-01 (a): other first weights on every rank are one model after the broadcast") {
  const mpi::Communicator& ranks = world();
  Options options;
  options.layers = {5, 4, 3};
  options.seed = 100;
  const cuda::Stream stream;
  const Model<float> model(seeded_apart(options, ranks.rank()), 2, stream);
  const ParameterStore<float>& store = model.parameters();
  // Biases are zero at first: give each rank its own, so that a broadcast of weights alone is seen.
  for (const std::size_t bias : {1U, 3U}) {
    const std::vector<float> own(store.parameters()[bias].count, static_cast<float>(ranks.rank()));
    cuda::upload<float>(store.value(bias).data(), own, stream);
  }
  const std::vector<float> before = download(store.value(0), stream);
  const Model<float> rank_0(options, 2, stream);
  CHECK((before == download(rank_0.parameters().value(0), stream)) == (ranks.rank() == 0));
  if (ranks.size() > 1) {
    const std::string message =
        error_of<AgreedError>([&] { check_replicas(store, ranks, stream, "at the start"); });
    CHECK(message.find("layers.0.weight") != std::string::npos);
    CHECK(message.find("at the start") != std::string::npos);
    const char* const others[] = {"", "", "on rank 1 differs", "on rank 1, 2 differs",
                                  "on rank 1, 2, 3 differs"};
    CHECK(message.find(others[ranks.size()]) != std::string::npos);
  }
  broadcast_parameters(store, ranks, stream);
  check_replicas(store, ranks, stream, "at the start");
  CHECK(download(store.value(0), stream) == download(rank_0.parameters().value(0), stream));
  CHECK(download(store.value(1), stream) == std::vector<float>(4, 0.0F));
}

TEST_CASE("IN-01: the replica check sees one bit, and a permutation that no norm would see") {
  const mpi::Communicator& ranks = world();
  if (ranks.size() == 1) return;
  const int odd_one = ranks.size() - 1;
  const cuda::Stream stream;
  const ParameterStore<float> store({{"a", {3}, true}, {"b", {3}, true}}, stream);
  const auto message_for = [&](const std::vector<float>& common, const std::vector<float>& odd) {
    cuda::upload<float>(store.value(1).data(), ranks.rank() == odd_one ? odd : common, stream);
    return error_of<AgreedError>([&] { check_replicas(store, ranks, stream, "after step 7"); });
  };
  const std::string expected = "replicas are not one model after step 7: parameter b on rank " +
                               std::to_string(odd_one) + " differs from rank 0's";
  CHECK(message_for({1, 2, 3}, {3, 2, 1}) == expected);
  CHECK(message_for({1, 2, 3}, {1, 2, std::nextafter(3.0F, 4.0F)}) == expected);
  CHECK(message_for({0, 2, 3}, {-0.0F, 2, 3}) == expected);
  CHECK(message_for({1, 2, 3}, {1, 2, 3}) == "(nothing was thrown)");
}

TEST_CASE("FA-03: every rank learns which flag was raised, and the first rank that raised it") {
  const mpi::Communicator& ranks = world();
  const int last = ranks.size() - 1;
  const cuda::Stream stream;
  const ParameterStore<float> store({{"w", {2}, true}}, stream, step_extras(ranks.size()));
  const DeviceScalars<float> scalars;
  NaiveAllReduce<float> all_reduce(ranks, false);
  const auto reduce = [&] {
    reduce_step(all_reduce, store, scalars.data(), ranks, {}, false, stream);
    return scalars.read(stream);
  };
  CHECK(reduce().flags == 0);
  // Two ranks, or one, with flags whose sum would be another flag.
  if (ranks.rank() == last) scalars.write({0, 0, 0, 0, non_finite_loss});
  StepScalars<float> seen = reduce();
  CHECK(seen.flags == non_finite_loss);
  CHECK(seen.raised_by == static_cast<unsigned>(last) + 1);
  if (ranks.rank() == 0) scalars.write({0, 0, 0, 0, non_finite_loss, seen.raised_by, 0});
  seen = reduce();
  CHECK(seen.flags == non_finite_loss);
  CHECK(seen.raised_by == static_cast<unsigned>(last) + 1);  // still the first
}

TEST_CASE("A rank that is asked to stop tells the others") {
  const mpi::Communicator& ranks = world();
  const cuda::Stream stream;
  const ParameterStore<float> store({{"w", {2}, true}}, stream, step_extras(ranks.size()));
  const DeviceScalars<float> scalars;
  NaiveAllReduce<float> all_reduce(ranks, false);
  const bool me = ranks.rank() == ranks.size() - 1;
  reduce_step(all_reduce, store, scalars.data(), ranks, {}, me, stream);
  CHECK(scalars.read(stream).stop == 1);
  CHECK(scalars.read(stream).flags == 0);
  reduce_step(all_reduce, store, scalars.data(), ranks, {}, false, stream);
  CHECK(scalars.read(stream).stop == 0);
}

}  // namespace
}  // namespace ddp
