// Whole runs inside of one program: the three parts of the promise, for NCCL in buckets.

#include <cmath>
#include <cstdint>
#include <vector>

#include "02_grad_accum/train.hpp"
#include "05_nccl_ddp/train.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

constexpr std::size_t steps = 12;
constexpr double bytes = 1.0 / (1 << 20);  // of a MiB

Options small_run() {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 16, 8, 4};
  options.global_batch = 24;  // 1, 2, 3 and 4 divide it
  options.steps = static_cast<std::int64_t>(steps);
  options.check_replicas = 1;
  options.quiet = true;
  options.device = environment().device();
  options.allreduce = AllReduceKind::nccl;
  return options;
}

// One bucket, so that nothing can overlap; several, with parameters together; one a parameter, so
// that every order of events occurs.
struct Caps {
  double first, other;
  std::int64_t buckets;
};
const std::vector<Caps> all_caps = {
    {1, 1, 1},                      //
    {100 * bytes, 600 * bytes, 4},  // 144, 544 + 1088: see the case of the plan
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

void check_same(const TrainingResult& many, const TrainingResult& one) {
  REQUIRE(many.steps.size() == one.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) CHECK(many.steps[i].loss == one.steps[i].loss);
  CHECK(many.parameter_checksum == one.parameter_checksum);
}

// Simulated NCCL adds in the order of the ranks; real NCCL in an order of its own.
bool adds_in_order(const TrainingResult& result) { return result.simulated || world().size() <= 2; }

TEST_CASE("GA-03 A: N GPUs give the bits of one GPU with the same N micro-batches", "[not-tsan]") {
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    Options options = small_run();
    options.precision = precision;
    options.clip_norm = 0.7;
    options.weight_decay = 0.01;
    Options on_one = options;
    on_one.micro_batch = options.global_batch / world().size();
    const TrainingResult one = grad_accum::train(on_one);
    for_all_buckets(options, [&](const Options& cut, std::int64_t buckets) {
      const TrainingResult many = nccl_ddp::train(cut, world());
      if (adds_in_order(many)) check_same(many, one);
      for (const Traffic& rank : many.traffic)
        CHECK(rank.collectives == static_cast<std::int64_t>(steps) * buckets);
    });
  }
}

TEST_CASE("GA-03 A: with micro-batches, buckets and overlap give the bits of the naive way") {
  Options options = small_run();
  options.micro_batch = 3;
  options.allreduce = AllReduceKind::naive;
  const TrainingResult naive = nccl_ddp::train(options, world());
  options.allreduce = AllReduceKind::nccl;
  for_all_buckets(options, [&](const Options& cut, std::int64_t buckets) {
    const TrainingResult many = nccl_ddp::train(cut, world());
    if (adds_in_order(many)) check_same(many, naive);
    for (const Traffic& rank : many.traffic)
      CHECK(rank.collectives == static_cast<std::int64_t>(steps) * buckets);
  });
}

TEST_CASE("GA-03 B: NCCL in buckets gives the losses of one GPU within 1e-12 in fp64",
          "[not-tsan]") {
  Options options = small_run();
  options.precision = Precision::fp64;
  options.global_batch = 25;  // 2, 3 and 4 do not divide it
  const TrainingResult one = grad_accum::train(options);
  options.micro_batch = 4;
  for_all_buckets(options, [&](const Options& cut, std::int64_t) {
    const TrainingResult many = nccl_ddp::train(cut, world());
    REQUIRE(many.steps.size() == steps);
    for (std::size_t i = 0; i < steps; ++i) {
      CHECK(std::abs(many.steps[i].loss - one.steps[i].loss) <= 1e-12 * one.steps[i].loss);
    }
  });
}

TEST_CASE("GA-03 C: from the same weights, loss and gradient are those of one GPU", "[not-tsan]") {
  Options options = small_run();
  options.activation = Activation::gelu;
  options.check_gradients = true;
  for_all_buckets(options, [&](const Options& cut, std::int64_t) {
    const TrainingResult many = nccl_ddp::train(cut, world());
    if (world().rank() != 0) return;  // one compares
    REQUIRE(many.gradient_differences.size() == steps);
    for (const GradientDifference& difference : many.gradient_differences) {
      CHECK(difference.loss <= 1e-6);
      CHECK(difference.gradient <= 1e-5);
    }
  });
}

TEST_CASE("The reproducible mode gives the bits of one GPU here, too", "[not-tsan]") {
  if (world().size() == 3) return;
  Options options = small_run();
  options.micro_batch = 3;
  options.accumulate = Accumulate::pairwise;
  const TrainingResult one = grad_accum::train(options);
  options.allreduce = AllReduceKind::tree;
  check_same(nccl_ddp::train(options, world()), one);
}

}  // namespace
}  // namespace ddp
