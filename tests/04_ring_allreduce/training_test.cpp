// Whole runs with every all-reduce of the stage, inside of one program.

#include <bit>
#include <cmath>
#include <vector>

#include "02_grad_accum/train.hpp"
#include "04_ring_allreduce/train.hpp"
#include "common/cli/option_names.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

Options small_run() {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 8, 4};
  options.global_batch = 25;  // 2, 3 and 4 do not divide it
  options.steps = 30;
  options.check_replicas = 1;
  options.quiet = true;
  options.device = environment().device();
  return options;
}

bool power_of_two() { return std::has_single_bit(static_cast<unsigned>(world().size())); }

TEST_CASE("GA-03 B: every all-reduce gives the losses of one GPU within 1e-12 in fp64") {
  Options options = small_run();
  options.precision = Precision::fp64;
  const TrainingResult one = grad_accum::train(options);
  for (const auto& [name, kind] : choices<AllReduceKind>) {
    if (kind == AllReduceKind::tree && !power_of_two()) continue;
    if (kind == AllReduceKind::nccl) continue;  // stage 05
    INFO(name);
    options.allreduce = kind;
    const TrainingResult many = ring_allreduce::train(options, world());
    REQUIRE(many.steps.size() == 30);
    for (std::size_t i = 0; i < 30; ++i) {
      CHECK(std::abs(many.steps[i].loss - one.steps[i].loss) <= 1e-12 * one.steps[i].loss);
    }
    for (std::size_t rank = 0; rank < many.traffic_by_formula.size(); ++rank) {
      CHECK(many.traffic_by_formula[rank].messages_received ==
            many.traffic_by_formula[rank].messages_sent);
    }
  }
}

TEST_CASE("GA-03 A: pairwise and tree give the bits of one GPU, on 1, 2 and 4 ranks",
          "[not-tsan]") {
  if (!power_of_two()) return;
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    Options options = small_run();
    options.precision = precision;
    options.micro_batch = 3;
    options.accumulate = Accumulate::pairwise;
    const TrainingResult one = grad_accum::train(options);
    options.allreduce = AllReduceKind::tree;
    const TrainingResult many = ring_allreduce::train(options, world());
    REQUIRE(many.steps.size() == one.steps.size());
    for (std::size_t i = 0; i < one.steps.size(); ++i) {
      CHECK(many.steps[i].loss == one.steps[i].loss);
    }
    CHECK(many.parameter_checksum == one.parameter_checksum);
  }
}

TEST_CASE("The bytes of the ring are 2(N-1)/N of the gradient a rank, in 2(N-1) messages") {
  Options options = small_run();
  options.allreduce = AllReduceKind::ring;
  const TrainingResult result = ring_allreduce::train(options, world());
  const int n = world().size();
  // As in stage 03: 704 elements with their padding, and 3 + N behind them.
  const double bytes = 4.0 * (704 + 3 + n);
  for (const Traffic& rank : result.traffic_by_formula) {
    CHECK(rank.messages_sent == 30 * 2 * (n - 1));
    // A chunk is at most one element longer or shorter than the mean.
    CHECK(std::abs(static_cast<double>(rank.bytes_sent) - 30 * bytes * 2 * (n - 1) / n) <=
          30 * 2 * 4);
  }
}

}  // namespace
}  // namespace ddp
