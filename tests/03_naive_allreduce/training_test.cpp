// Part A of the promise, inside of one program: the ranks' runs against one GPU that takes the same
// micro-batches one after another.

#include <string>
#include <vector>

#include "02_grad_accum/train.hpp"
#include "03_naive_allreduce/train.hpp"
#include "common/errors.hpp"
#include "common/run/agree.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/environment.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

Options small_run() {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 8, 4};
  options.global_batch = 24;  // 1, 2, 3 and 4 divide it
  options.steps = 30;
  options.check_replicas = 1;
  options.quiet = true;
  options.device = environment().device();
  return options;
}

void check_same(const TrainingResult& many, const TrainingResult& one) {
  REQUIRE(many.steps.size() == one.steps.size());
  for (std::size_t i = 0; i < one.steps.size(); ++i) CHECK(many.steps[i].loss == one.steps[i].loss);
  CHECK(many.parameter_checksum == one.parameter_checksum);
}

TEST_CASE("GA-03 A: N GPUs give the bits of one GPU with the same N micro-batches", "[not-tsan]") {
  for (const Precision precision : {Precision::fp32, Precision::fp64}) {
    for (const bool by_parameter : {false, true}) {
      Options options = small_run();
      options.precision = precision;
      options.clip_norm = 0.7;
      options.weight_decay = 0.01;
      Options on_one = options;
      on_one.micro_batch = options.global_batch / world().size();
      options.by_parameter = by_parameter;
      check_same(naive_allreduce::train(options, world()), grad_accum::train(on_one));
    }
  }
}

TEST_CASE("GA-03: a run of several ranks learns, and has what it sends counted") {
  const TrainingResult result = naive_allreduce::train(small_run(), world());
  CHECK(result.steps.back().loss < 0.8 * result.steps.front().loss);
  const auto ranks = static_cast<std::size_t>(world().size());
  REQUIRE(result.traffic.size() == ranks);
  REQUIRE(result.traffic_by_formula.size() == ranks);
  // Parameters of 320, 16, 128, 8, 32 and 4 elements, each made up to a multiple of 64, and three
  // numbers and one a rank behind them: the gradient as it is sent.
  const auto bytes = static_cast<std::int64_t>(4 * (320 + 64 + 128 + 64 + 64 + 64 + 3 + ranks));
  const auto others = static_cast<std::int64_t>(ranks) - 1;
  CHECK(result.traffic_by_formula[0].bytes_sent == 30 * others * bytes);
  CHECK(result.traffic_by_formula[0].messages_sent == 30 * others);
  if (ranks > 1) CHECK(result.traffic_by_formula[1].bytes_sent == 30 * bytes);
}

TEST_CASE("FA-03: all ranks fail at the same step and know the rank that saw it first") {
  const int last = world().size() - 1;
  const ScopedVariable fault("DDP_FAULT", std::to_string(last) + ":2:nan");
  const auto train = [] { naive_allreduce::train(small_run(), world()); };
  const std::string message =
      world().size() == 1 ? error_of<NonFiniteError>(train) : error_of<AgreedError>(train);
  CHECK(message.find("in step 2 on rank " + std::to_string(last)) != std::string::npos);
}

}  // namespace
}  // namespace ddp
