// Which rate each update has, by hand; and the options that say so.

#include <limits>
#include <sstream>
#include <string>
#include <vector>

#include "07_scaling_rules/learning_rate.hpp"
#include "common/cli/parse_options.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

void check_close(double found, double expected) {
  CHECK(std::abs(found - expected) <=
        2 * std::numeric_limits<double>::epsilon() * std::abs(expected));
}

// Of the first updates.
void check_rates(const RateSchedule& schedule, const std::vector<double>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("update " << i + 1);
    check_close(learning_rate(schedule, static_cast<std::int64_t>(i) + 1), expected[i]);
  }
}

// LR-01: micro-batches of 32, four of them, on four ranks.
Options case_1() {
  Options options;
  options.base_learning_rate = 0.1;
  options.base_batch = 256;
  options.global_batch = 512;
  options.micro_batch = 32;
  return options;
}

Options parsed(const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers = {"07_scaling_rules"};
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out;
  return parse_options(static_cast<int>(pointers.size()), pointers.data(), "07_scaling_rules", out)
      .value();
}
std::string refusal(const std::vector<std::string>& arguments) {
  return error_of<OptionError>([&] { parsed(arguments); });
}

TEST_CASE("LR-01: the target is 0.2, not 0.05 (no accumulation) or 0.1 (no scaling)") {
  Options options = case_1();
  CHECK(target_rate(options) == 0.2);
  options.scaling = Scaling::none;
  CHECK(target_rate(options) == 0.1);
  options.scaling = Scaling::sqrt;
  options.global_batch = 1024;
  CHECK(target_rate(options) == 0.2);
  options.global_batch = 64;  // smaller than the base: the rules go down, too
  CHECK(target_rate(options) == 0.05);
  options.scaling = Scaling::linear;
  CHECK(target_rate(options) == 0.025);
}

TEST_CASE("--lr is the rate, whatever the batch") {
  Options options = case_1();
  options.base_learning_rate.reset();
  options.learning_rate = 0.3;
  CHECK(target_rate(options) == 0.3);
}

TEST_CASE("LR-01: five updates up to 0.2, from 0.04 on, and no further") {
  Options options = case_1();
  options.warmup_steps = 5;
  check_rates(rate_schedule(options, 60000), {0.04, 0.08, 0.12, 0.16, 0.2, 0.2, 0.2});
  options.warmup_from = 0.1;
  check_rates(rate_schedule(options, 60000), {0.12, 0.14, 0.16, 0.18, 0.2, 0.2, 0.2});
}

TEST_CASE("LR-01: warm-up in epochs, of 118 updates here; half an update is one") {
  Options options = case_1();
  options.warmup_epochs = 0.5;
  const RateSchedule half = rate_schedule(options, 60000);
  CHECK(half.warmup_steps == 59);
  check_rates(half, {0.2 / 59, 0.4 / 59});
  CHECK(learning_rate(half, 58) < 0.2);
  CHECK(learning_rate(half, 59) == 0.2);
  options.warmup_epochs = 1e-9;
  CHECK(rate_schedule(options, 60000).warmup_steps == 1);
  CHECK(learning_rate(rate_schedule(options, 60000), 1) == 0.2);
}

TEST_CASE("A tenth after every two epochs, counted from the first update") {
  Options options = case_1();
  options.schedule = Schedule::step;
  options.decay_every_epochs = 2;
  options.warmup_steps = 2;
  const RateSchedule schedule = rate_schedule(options, 1500);  // three updates an epoch
  check_rates(schedule, {0.1, 0.2, 0.2, 0.2, 0.2, 0.2, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.002});
}

TEST_CASE("Half a wave from the target down, which no update sees at 0") {
  Options options = case_1();
  options.schedule = Schedule::cosine;
  options.steps = 3;
  // cos 0, cos 60, cos 120 degrees; 180 would be the fourth.
  check_rates(rate_schedule(options, 60000), {0.2, 0.15, 0.05});
  options.steps = 5;
  options.warmup_steps = 3;
  check_rates(rate_schedule(options, 60000), {0.2 / 3, 0.4 / 3, 0.2, 0.15, 0.05});
  options.steps.reset();
  options.epochs = 2;
  options.warmup_steps = 0;
  CHECK(rate_schedule(options, 60000).total_steps == 236);
}

TEST_CASE("LR-01: no update is for nothing, even where the warm-up is longer than the run") {
  for (const Schedule kind : {Schedule::constant, Schedule::step, Schedule::cosine}) {
    for (const std::int64_t warmup : {0, 1, 4, 9}) {
      Options options = case_1();
      options.schedule = kind;
      options.decay_every_epochs = 0.01;
      options.warmup_steps = warmup;
      options.steps = 4;
      for (std::int64_t update = 1; update <= 4; ++update) {
        CHECK(learning_rate(rate_schedule(options, 60000), update) > 0);
      }
    }
  }
}

TEST_CASE("A warm-up does not go down") {
  Options options = case_1();
  options.warmup_steps = 5;
  options.warmup_from = 0.3;
  CHECK_THAT(error_of<OptionError>([&] { rate_schedule(options, 60000); }),
             Contains("--warmup-from is 0.3") && Contains("0.2"));
}

TEST_CASE("Without options the rate is that of the stages before: 0.0125 at 64 is 0.05 at 256") {
  CHECK(target_rate(parsed({})) == 0.05);
  CHECK(target_rate(parsed({"--global-batch", "64"})) == 0.0125);
  CHECK(target_rate(parsed({"--lr", "0.2", "--global-batch", "64"})) == 0.2);
}

TEST_CASE("Every option of the rate sets its value") {
  const Options options =
      parsed({"--base-lr", "0.3", "--base-batch", "32", "--scaling", "sqrt", "--warmup-epochs",
              "0.5", "--warmup-from", "0.1", "--schedule", "step", "--decay-every-epochs", "30",
              "--decay-factor", "0.5", "--momentum-form", "velocity"});
  CHECK(options.base_learning_rate == 0.3);
  CHECK(options.base_batch == 32);
  CHECK(options.scaling == Scaling::sqrt);
  CHECK(options.warmup_epochs == 0.5);
  CHECK(options.warmup_from == 0.1);
  CHECK(options.schedule == Schedule::step);
  CHECK(options.decay_every_epochs == 30);
  CHECK(options.decay_factor == 0.5);
  CHECK(options.momentum_form == MomentumForm::velocity);
  CHECK(parsed({"--warmup-steps", "7"}).warmup_steps == 7);
}

TEST_CASE("Options of the rate that contradict each other, or say nothing alone") {
  for (const std::string other : {"--base-lr=1", "--base-batch=64", "--scaling=none"}) {
    CHECK_THAT(refusal({other, "--lr", "0.1"}),
               Contains("expected --lr, or --base-lr with --base-batch and --scaling") &&
                   Contains(other.substr(0, other.find('='))));
  }
  CHECK_THAT(refusal({"--warmup-steps", "5", "--warmup-epochs", "1"}),
             Contains("expected one of them"));
  CHECK_THAT(refusal({"--warmup-from", "0.1"}),
             Contains("expected --warmup-steps or --warmup-epochs"));
  CHECK_THAT(refusal({"--decay-factor", "0.5"}), Contains("needs --schedule step"));
  CHECK_THAT(refusal({"--decay-every-epochs", "3", "--schedule", "cosine"}),
             Contains("needs --schedule step; it is cosine"));
  CHECK_THAT(refusal({"--schedule", "step"}), Contains("needs --decay-every-epochs"));
  for (const std::string bad : {"--base-lr=0", "--base-lr=nan", "--base-batch=0", "--scaling=cubic",
                                "--warmup-steps=-1", "--warmup-steps=1.5", "--warmup-epochs=-1",
                                "--schedule=linear", "--momentum-form=nesterov"}) {
    CHECK_THAT(refusal({bad}),
               Contains(bad.substr(0, bad.find('=')) + " is '") && Contains("it must be"));
  }
}

}  // namespace
}  // namespace ddp
