#include <sstream>
#include <string>
#include <vector>

#include "common/cli/parse_options.hpp"
#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

std::optional<Options> parse(const std::vector<std::string>& arguments, std::ostream& out) {
  std::vector<const char*> pointers = {"01_single_gpu"};
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  return parse_options(static_cast<int>(pointers.size()), pointers.data(), "01_single_gpu", out);
}
Options parsed(const std::vector<std::string>& arguments) {
  std::ostringstream out;
  return parse(arguments, out).value();
}
std::string help(const std::string& option) {
  std::ostringstream out;
  REQUIRE_FALSE(parse({option}, out).has_value());
  return out.str();
}
std::string refusal(const std::vector<std::string>& arguments) {
  return error_of<OptionError>([&] { parsed(arguments); });
}

TEST_CASE("Without options every value is its default") {
  const Options options = parsed({});
  CHECK(options.data == "fashion-mnist");
  CHECK(options.layers == std::vector<int>{784, 512, 256, 10});
  CHECK(options.activation == Activation::relu);
  CHECK(options.loss == LossKind::cross_entropy);
  CHECK(options.precision == Precision::fp32);
  CHECK(options.global_batch == 256);
  CHECK(options.epochs == 3);
  CHECK_FALSE(options.steps.has_value());
  CHECK(options.learning_rate == 0.05);
  CHECK(options.momentum == 0.9);
  CHECK(options.weight_decay == 0);
  CHECK(options.clip_norm == 0);
  CHECK(options.seed == 1);
  CHECK(options.shuffle);
  CHECK(options.device == 0);
  CHECK(options.metrics.empty());
  CHECK(options.dump_samples.empty());
  CHECK(options.trace.empty());
  CHECK_FALSE(options.quiet);
}

TEST_CASE("Every option sets its value") {
  const Options options = parsed({"--data",
                                  "synthetic",
                                  "--layers",
                                  "20-30x2-5",
                                  "--activation",
                                  "gelu",
                                  "--loss=mse",
                                  "--precision",
                                  "fp64",
                                  "--global-batch",
                                  "7",
                                  "--epochs",
                                  "9",
                                  "--steps",
                                  "0",
                                  "--lr",
                                  "1e-3",
                                  "--momentum",
                                  "0",
                                  "--weight-decay",
                                  "0.25",
                                  "--clip-norm",
                                  "2.5",
                                  "--seed",
                                  "18446744073709551615",
                                  "--no-shuffle",
                                  "--device",
                                  "-1",
                                  "--metrics",
                                  "m.jsonl",
                                  "--dump-samples",
                                  "s.jsonl",
                                  "--trace",
                                  "t.json",
                                  "--quiet"});
  CHECK(options.data == "synthetic");
  CHECK(options.layers == std::vector<int>{20, 30, 30, 5});
  CHECK(options.activation == Activation::gelu);
  CHECK(options.loss == LossKind::mse);
  CHECK(options.precision == Precision::fp64);
  CHECK(options.global_batch == 7);
  CHECK(options.epochs == 9);
  CHECK(options.steps == 0);  // --epochs beside it is no error: --steps wins
  CHECK(options.learning_rate == 1e-3);
  CHECK(options.momentum == 0);
  CHECK(options.weight_decay == 0.25);
  CHECK(options.clip_norm == 2.5);
  CHECK(options.seed == 18446744073709551615u);
  CHECK_FALSE(options.shuffle);
  CHECK(options.device == -1);  // refused with the number of devices, once that is known
  CHECK(options.metrics == "m.jsonl");
  CHECK(options.dump_samples == "s.jsonl");
  CHECK(options.trace == "t.json");
  CHECK(options.quiet);
}

TEST_CASE("Layers: sizes, repeats and their limits") {
  CHECK(parsed({"--layers", "784-512x8-10"}).layers ==
        std::vector<int>{784, 512, 512, 512, 512, 512, 512, 512, 512, 10});
  CHECK(parsed({"--layers", "1-1"}).layers == std::vector<int>{1, 1});
  CHECK(parsed({"--layers", "4x2"}).layers == std::vector<int>{4, 4});
  CHECK(parsed({"--layers", "2x256"}).layers.size() == 256);
  for (const char* layers :
       {"784",       "4x1",         "784-",       "-784-10",        "784--10",
        "784-0-10",  "784--5-10",   "a-b",        "784-10.5",       "784 - 10",
        "784-x3-10", "784-5x-10",   "784-5x0-10", "784-5x-1-10",    "784-5x2x2-10",
        "2x257",     "2x128-2x129", "65537-10",   "99999999999-10", "784-10x99999999999",
        "784,10"}) {
    CHECK_THAT(refusal({"--layers", layers}),
               Contains("--layers is '" + std::string(layers) + "'") &&
                   Contains("sizes from 1 to 65536") && Contains("784-512-256-10"));
  }
}

TEST_CASE("A bad value names the option, the value and what is allowed") {
  struct Row {
    const char* option;
    std::vector<const char*> bad;
    const char* allowed;
  };
  const std::vector<Row> rows = {
      {"--global-batch",
       {"0", "-1", "1.5", "1e3", "256x", "x", "1048577", "99999999999999999999"},
       "a whole number from 1 to 1048576"},
      {"--epochs", {"0", "-1", "two", "1000001"}, "a whole number from 1 to 1000000"},
      {"--steps", {"-1", "1.0", "many", "2000000001"}, "a whole number from 0 to 2000000000"},
      {"--seed",
       {"-1", "1.5", "18446744073709551616"},
       "a whole number from 0 to 18446744073709551615"},
      {"--device", {"gpu", "1.0", "99999999999"}, "a whole number"},
      {"--lr",
       {"0", "-0.1", "nan", "inf", "-inf", "1e999", "fast", "0.1x", "0x1p3"},
       "a finite number above 0"},
      {"--momentum",
       {"-0.1", "1", "1.5", "nan", "inf", "much"},
       "a number of at least 0 and below 1"},
      {"--weight-decay", {"-1e-4", "nan", "inf", "x"}, "a finite number of at least 0"},
      {"--clip-norm", {"-1", "nan", "inf", "x"}, "a finite number of at least 0"},
      {"--activation", {"tanh", "ReLU", "relu "}, "one of relu, gelu"},
      {"--loss", {"l2", "crossentropy"}, "one of cross-entropy, mse"},
      {"--precision", {"32"}, "one of fp64, fp32"},
      {"--precision", {"fp16", "bf16"}, "one of fp64|fp32 in this stage"},
  };
  for (const Row& row : rows) {
    for (const char* bad : row.bad) {
      CHECK_THAT(refusal({row.option, bad}), Contains(std::string(row.option) + " is '" + bad +
                                                      "'; it must be " + row.allowed));
    }
  }
}

TEST_CASE("An option without a value, given twice or unknown is refused by name") {
  for (const char* option :
       {"--data", "--layers", "--lr", "--metrics", "--dump-samples", "--trace", "--steps"}) {
    CHECK_THAT(refusal({option}), Contains(option));
    CHECK_THAT(refusal({option, ""}), Contains(std::string(option) + " needs a value"));
    CHECK_THAT(refusal({option, "--quiet"}), Contains(std::string(option) + " needs a value"));
  }
  CHECK_THAT(refusal({"--lr", "0.1", "--lr", "0.2"}), Contains("--lr"));
  CHECK_THAT(refusal({"--no-shuffle=3"}), Contains("no-shuffle"));
  for (const char* unknown : {"--learning-rate", "-z", "fast", "--epoch"}) {
    CHECK_THAT(refusal({unknown}), Contains("unknown option '" + std::string(unknown) + "'") &&
                                       Contains("--lr") && Contains("--no-shuffle"));
  }
}

TEST_CASE("Options that contradict each other or do not fit together") {
  CHECK_THAT(refusal({"--metrics", "a.jsonl", "--dump-samples", "a.jsonl"}),
             Contains("--metrics") && Contains("--dump-samples") && Contains("a.jsonl"));
  CHECK_THAT(refusal({"--trace", "a", "--metrics", "a"}),
             Contains("--metrics") && Contains("--trace"));
  CHECK_THAT(refusal({"--global-batch", "1048576", "--layers", "784-4096-10"}),
             Contains("--global-batch 1048576") && Contains("4096"));
  CHECK_THAT(refusal({"--layers", "784-65536-65536-10"}), Contains("65536-65536"));
}

// Of stage 06.
Options parsed_06(const std::vector<std::string>& arguments) {
  std::vector<const char*> pointers = {"06_mixed_precision"};
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  std::ostringstream out;
  return parse_options(static_cast<int>(pointers.size()), pointers.data(), "06_mixed_precision",
                       out)
      .value();
}
std::string refusal_06(const std::vector<std::string>& arguments) {
  return error_of<OptionError>([&] { parsed_06(arguments); });
}

TEST_CASE("Stage 06: the loss scale is dynamic in fp16, otherwise 1, or what the options say") {
  const LossScaleRule fp16 = parsed_06({"--precision", "fp16"}).loss_scale;
  CHECK(fp16.dynamic());
  CHECK(fp16.first == 65536);
  CHECK(fp16.growth_interval == 2000);
  CHECK(fp16.growth == 2);
  CHECK(fp16.backoff == 0.5);
  for (const char* other : {"fp64", "fp32", "bf16"}) {
    const LossScaleRule rule = parsed_06({"--precision", other}).loss_scale;
    CHECK_FALSE(rule.dynamic());
    CHECK(rule.first == 1);
    CHECK(parsed_06({"--precision", other, "--loss-scale", "dynamic"}).loss_scale.first == 65536);
  }
  const LossScaleRule fixed = parsed_06({"--precision", "fp16", "--loss-scale", "128"}).loss_scale;
  CHECK_FALSE(fixed.dynamic());
  CHECK(fixed.first == 128);
  const LossScaleRule rule =
      parsed_06({"--precision", "fp16", "--first-loss-scale", "64", "--loss-scale-interval", "3",
                 "--loss-scale-growth", "4", "--loss-scale-backoff", "0.25", "--loss-scale-floor",
                 "2", "--loss-scale-ceiling", "1024"})
          .loss_scale;
  CHECK(rule.first == 64);
  CHECK(rule.growth_interval == 3);
  CHECK(rule.growth == 4);
  CHECK(rule.backoff == 0.25);
  CHECK(rule.floor == 2);
  CHECK(rule.ceiling == 1024);
  CHECK(parsed_06({"--precision", "bf16"}).master_weights);
  CHECK(parsed_06({"--precision", "bf16"}).reduce_type == ReduceType::fp32);
  CHECK_FALSE(parsed_06({"--precision", "bf16", "--master-weights", "off"}).master_weights);
  CHECK(parsed_06({"--precision", "bf16", "--reduce-dtype", "same"}).reduce_type ==
        ReduceType::same);
}

TEST_CASE("Stage 06: bad values, and options that say nothing without another, are refused") {
  struct Row {
    std::vector<std::string> arguments;
    const char* words;
  };
  const std::vector<Row> rows = {
      {{"--loss-scale", "0"}, "--loss-scale is '0'; it must be dynamic or a finite number above 0"},
      {{"--loss-scale", "-8"}, "--loss-scale is '-8'"},
      {{"--loss-scale", "static"}, "--loss-scale is 'static'; it must be dynamic or"},
      {{"--loss-scale-interval", "0"}, "--loss-scale-interval is '0'"},
      {{"--first-loss-scale", "nan"}, "--first-loss-scale is 'nan'"},
      {{"--loss-scale-growth", "0.5", "--precision", "fp16"}, "--loss-scale-growth is 0.5"},
      {{"--loss-scale-backoff", "1", "--precision", "fp16"}, "--loss-scale-backoff is 1"},
      {{"--first-loss-scale", "0.5", "--precision", "fp16"}, "--loss-scale-floor, 1"},
      {{"--first-loss-scale", "4", "--loss-scale-ceiling", "2", "--precision", "fp16"},
       "--loss-scale-ceiling, 2"},
      {{"--first-loss-scale", "8", "--precision", "bf16"},
       "--first-loss-scale goes with --loss-scale dynamic"},
      {{"--loss-scale", "8", "--loss-scale-floor", "1", "--precision", "fp16"},
       "--loss-scale-floor goes with --loss-scale dynamic"},
      {{"--reduce-dtype", "fp16"}, "--reduce-dtype is 'fp16'; it must be one of fp32, same"},
      {{"--reduce-dtype", "same"}, "goes with --precision fp16 or bf16; it is fp32"},
      {{"--reduce-dtype", "same", "--precision", "fp16", "--allreduce", "ring"},
       "--reduce-dtype same goes with --allreduce nccl; it is ring"},
      {{"--master-weights", "no"}, "--master-weights is 'no'; it must be on or off"},
      {{"--master-weights", "off", "--precision", "fp64"},
       "--master-weights off goes with --precision fp16 or bf16; it is fp64"},
      {{"--precision", "fp8"}, "--precision is 'fp8'; it must be one of"},
  };
  for (const Row& row : rows) CHECK_THAT(refusal_06(row.arguments), Contains(row.words));
  for (const char* option : {"--loss-scale", "--reduce-dtype", "--master-weights"}) {
    CHECK_THAT(refusal({option, "1"}), Contains("unknown option"));  // before stage 06
  }
}

TEST_CASE(
    "--help shows the eight options that matter, --help-all all of them, --version the version") {
  const std::vector<std::string> eight = {"--data ",  "--layers ", "--global-batch ", "--epochs ",
                                          "--steps ", "--lr ",     "--seed ",         "--metrics "};
  const std::vector<std::string> rest = {"--activation ", "--loss ",         "--precision ",
                                         "--momentum ",   "--weight-decay ", "--clip-norm ",
                                         "--no-shuffle ", "--device ",       "--dump-samples ",
                                         "--quiet ",      "--trace "};
  const std::string short_help = help("--help");
  const std::string long_help = help("--help-all");
  for (const std::string& name : eight) {
    CHECK_THAT(short_help, Contains(name));
    CHECK_THAT(long_help, Contains(name));
  }
  for (const std::string& name : rest) {
    CHECK_THAT(short_help, !Contains(name));
    CHECK_THAT(long_help, Contains(name));
  }
  for (const char* value :
       {"(fashion-mnist)", "(784-512-256-10)", "(256)", "(3)", "(0.05)", "(1)"}) {
    CHECK_THAT(short_help, Contains(value));
  }
  CHECK_THAT(short_help, Contains("--help-all"));
  CHECK(help("--version").starts_with("01_single_gpu 0."));
}

}  // namespace
}  // namespace ddp
