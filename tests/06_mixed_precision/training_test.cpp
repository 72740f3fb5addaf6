// Whole runs inside of one program: the promise, in halves.

#include <cmath>
#include <cstdint>
#include <vector>

#include "05_nccl_ddp/train.hpp"
#include "06_mixed_precision/train.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

constexpr std::size_t steps = 12;
constexpr double bytes = 1.0 / (1 << 20);  // of a MiB

Options small_run(Precision precision) {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 16, 8, 4};
  options.precision = precision;
  options.global_batch = 24;  // 1, 2, 3 and 4 divide it
  options.steps = static_cast<std::int64_t>(steps);
  options.clip_norm = 0.7;
  options.weight_decay = 0.01;
  options.check_replicas = 1;
  options.quiet = true;
  options.device = environment().device();
  options.allreduce = AllReduceKind::nccl;
  return options;
}

// In fp16 the first steps overflow, in both the scale grows now and then: the gradient of an output
// is at most 1/24, and 65504 * 24 = 1.6e6, a little more than 2^20.
Options small_run_in_halves(Precision precision) {
  Options options = small_run(precision);
  options.loss_scale = {.first = 1 << 23, .growth_interval = 3, .floor = 1, .ceiling = 1 << 24};
  return options;
}
const std::vector<Precision> halves = {Precision::fp16, Precision::bf16};

// As in stage 05: one bucket, so that nothing can overlap; several; one a parameter.
struct Caps {
  double first, other;
  std::int64_t buckets;
};
const std::vector<Caps> all_caps = {
    {1, 1, 1},                      //
    {100 * bytes, 600 * bytes, 4},  //
    {0, 0, 8},                      //
};

template <class Check>
void for_all_buckets(const Options& options, const Check& check) {
  for (const Caps& caps : all_caps) {
    for (const bool overlap : {false, true}) {
      INFO(caps.buckets << " buckets, overlap " << overlap);
      Options cut = options;
      cut.first_bucket_mb = caps.first;
      cut.bucket_mb = caps.other;
      cut.overlap = overlap;
      check(cut, caps.buckets);
    }
  }
}

int skipped_steps(const TrainingResult& result) {
  int count = 0;
  for (const StepRecord& step : result.steps) count += step.skipped ? 1 : 0;
  return count;
}

void check_same(const TrainingResult& many, const TrainingResult& one) {
  REQUIRE(many.steps.size() == one.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) {
    CHECK(many.steps[i].loss == one.steps[i].loss);
    CHECK(many.steps[i].skipped == one.steps[i].skipped);
  }
  CHECK(many.parameter_checksum == one.parameter_checksum);
}

// This rank by itself.
TrainingResult train_alone(const Options& options) {
  const mpi::Communicator alone(MPI_COMM_SELF);
  return mixed_precision::train(options, alone);
}
TrainingResult train(const Options& options) { return mixed_precision::train(options, world()); }

// Simulated NCCL adds in the order of the ranks; real NCCL in an order of its own.
bool adds_in_order(const TrainingResult& result) { return result.simulated || world().size() <= 2; }

TEST_CASE("CL-01, LR-04: in fp32 and fp64 these are the bits of stage 05, whatever the scale",
          "[not-tsan]") {
  // A power of two scales without rounding, and the inverse takes it back: only if the gradient is
  // unscaled before it is clipped and before the decay is added.
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    Options options = small_run(precision);
    options.micro_batch = 4;
    const TrainingResult before = nccl_ddp::train(options, world());
    for (const double scale : {1.0, 1024.0}) {
      INFO("scale " << scale);
      options.loss_scale = {.first = scale, .floor = scale, .ceiling = scale};
      check_same(train(options), before);
    }
    INFO("a scale that grows");
    options.loss_scale = {.first = 1024, .growth_interval = 3, .floor = 1, .ceiling = 1 << 24};
    const TrainingResult growing = train(options);
    CHECK(growing.steps.back().loss_scale == 8192);  // in step 12 of 3 and 3 and 3 and 3
    check_same(growing, before);
  }
}

TEST_CASE("GA-03 A: in halves N GPUs give the bits of one GPU with the same N micro-batches",
          "[delays][not-tsan]") {
  for (const Precision precision : halves) {
    const Options options = small_run_in_halves(precision);
    Options on_one = options;
    on_one.micro_batch = options.global_batch / world().size();
    const TrainingResult one = train_alone(on_one);
    if (precision == Precision::fp16) {  // otherwise nothing would be shown about such steps
      CHECK(skipped_steps(one) >= 2);
      CHECK(skipped_steps(one) <= 8);
    }
    Options naive = options;
    naive.allreduce = AllReduceKind::naive;
    check_same(train(naive), one);
    for_all_buckets(options, [&](const Options& cut, std::int64_t buckets) {
      const TrainingResult many = train(cut);
      if (adds_in_order(many)) check_same(many, one);
      for (const Traffic& rank : many.traffic)
        CHECK(rank.collectives == static_cast<std::int64_t>(steps) * buckets);
    });
  }
}

TEST_CASE("GA-03 A: the reproducible mode gives the bits of one GPU in halves, too", "[not-tsan]") {
  if (world().size() == 3) return;
  for (const Precision precision : halves) {
    Options options = small_run_in_halves(precision);
    options.micro_batch = 3;
    options.accumulate = Accumulate::pairwise;
    options.allreduce = AllReduceKind::tree;
    check_same(train(options), train_alone(options));
  }
}

TEST_CASE("GA-03 C: in halves, from the same weights, the gradient is that of one GPU",
          "[not-tsan]") {
  for (const Precision precision : halves) {
    for (const bool overlap : {false, true}) {
      Options options = small_run(precision);
      options.activation = Activation::gelu;
      options.global_batch = 25;  // 2, 3 and 4 do not divide it
      options.micro_batch = 4;
      options.steps = 100;
      options.loss_scale = {.first = 1024, .floor = 1024, .ceiling = 1024};
      options.check_gradients = true;
      options.bucket_mb = options.first_bucket_mb = 0;
      options.overlap = overlap;
      const TrainingResult many = train(options);
      if (world().rank() != 0) continue;  // one compares
      REQUIRE(many.gradient_differences.size() == 100);
      for (const GradientDifference& difference : many.gradient_differences) {
        CHECK(difference.loss <= 2e-3);
        CHECK(difference.gradient <= 2e-3);
      }
    }
  }
}

TEST_CASE("GA-03 C: a step that is skipped is not compared", "[not-tsan]") {
  Options options = small_run_in_halves(Precision::fp16);
  options.micro_batch = 4;
  options.check_gradients = true;
  const TrainingResult many = train(options);
  if (world().rank() != 0) return;
  const auto applied = steps - static_cast<std::size_t>(skipped_steps(many));
  CHECK(applied < steps);
  CHECK(many.gradient_differences.size() == applied);
  for (const GradientDifference& difference : many.gradient_differences) {
    CHECK(difference.gradient <= 2e-3);
  }
}

TEST_CASE(
    "MP-01: with --reduce-dtype same, ranks send half of the bytes, in any buckets the same") {
  // 20-16-16-8-4; a parameter begins at a multiple of 64 elements. The numbers behind the
  // gradients, three and one a rank, go as floats.
  constexpr std::int64_t elements =
      (20 * 16) + 64 + (16 * 16) + 64 + (16 * 8) + 64 + 64 /* 8 * 4 */ + 64;
  const std::int64_t behind = 3 + world().size();
  for (const Precision precision : halves) {
    Options options = small_run_in_halves(precision);
    const auto bytes_sent = [&](const Options& cut, std::int64_t expected) {
      const TrainingResult result = train(cut);
      for (const Traffic& rank : result.traffic)
        CHECK(rank.collective_bytes == static_cast<std::int64_t>(steps) * expected);
      return result;
    };
    bytes_sent(options, 4 * elements + 4 * behind);
    options.reduce_type = ReduceType::same;
    options.overlap = false;
    const TrainingResult one_bucket = bytes_sent(options, 2 * elements + 4 * behind);
    for_all_buckets(options, [&](const Options& cut, std::int64_t) {
      const TrainingResult result = bytes_sent(cut, 2 * elements + 4 * behind);
      if (adds_in_order(result)) check_same(result, one_bucket);
    });
  }
}

}  // namespace
}  // namespace ddp
