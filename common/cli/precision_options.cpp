#include "common/cli/precision_options.hpp"

#include <limits>

#include "common/cli/option_names.hpp"
#include "common/cli/parse_values.hpp"
#include "common/errors.hpp"

namespace ddp {
namespace {

// Of a dynamic scale. The first is what loss scalers usually begin with: too large rather than too
// small, for it comes down within a few steps, each of which is skipped, and up only slowly.
constexpr LossScaleRule dynamic_rule{.first = 65536, .floor = 1, .ceiling = 16777216};

}  // namespace

PrecisionOptions::PrecisionOptions(OptionTable& table, Options& options) : options_(options) {
  LossScaleRule& rule = options.loss_scale;
  rule = dynamic_rule;
  const auto add = [&](Shown shown, const std::string& name, const std::string& type,
                       const auto& default_value, const std::string& description, auto read) {
    table.add(shown, name, type, default_value, description,
              [this, name, read](const std::string& text) {
                given_.insert(name);
                read(text);
              });
  };
  const auto positive = [](const std::string& name, double& value) {
    return [name, &value](const std::string& text) {
      value = parse_number(name, text, NumberRange::positive);
    };
  };
  add(Shown::in_help, "--loss-scale", "dynamic|X", "dynamic for fp16, 1 for others",
      "what gradients are multiplied by on their way through the layers",
      [this](const std::string& text) {
        dynamic_ = text == "dynamic";
        if (dynamic_) return;
        try {
          fixed_scale_ = parse_number("--loss-scale", text, NumberRange::positive);
        } catch (const OptionError&) {
          refuse_value("--loss-scale", text, "dynamic or a finite number above 0");
        }
      });
  add(Shown::in_help_all, "--first-loss-scale", "X", rule.first, "of a dynamic scale",
      positive("--first-loss-scale", rule.first));
  add(Shown::in_help_all, "--loss-scale-interval", "N", rule.growth_interval,
      "good steps in a row after which it grows", [&rule](const std::string& text) {
        rule.growth_interval = static_cast<int>(
            parse_integer("--loss-scale-interval", text, 1, std::numeric_limits<int>::max()));
      });
  add(Shown::in_help_all, "--loss-scale-growth", "X", rule.growth, "by what it grows",
      positive("--loss-scale-growth", rule.growth));
  add(Shown::in_help_all, "--loss-scale-backoff", "X", rule.backoff,
      "what it is multiplied by after an overflow", positive("--loss-scale-backoff", rule.backoff));
  add(Shown::in_help_all, "--loss-scale-floor", "X", rule.floor,
      "an overflow at this scale ends the run", positive("--loss-scale-floor", rule.floor));
  add(Shown::in_help_all, "--loss-scale-ceiling", "X", rule.ceiling, "where it stops to grow",
      positive("--loss-scale-ceiling", rule.ceiling));
  add(Shown::in_help, "--reduce-dtype", "fp32|same", name_of(options.reduce_type),
      "in which numbers the ranks add their gradients; same: those of --precision",
      [this](const std::string& text) {
        options_.reduce_type = parse_choice<ReduceType>("--reduce-dtype", text);
      });
  add(Shown::in_help_all, "--master-weights", "on|off", "on",
      "off: weights are kept in halves alone, a mistake to look at",
      [this](const std::string& text) {
        if (text != "on" && text != "off") refuse_value("--master-weights", text, "on or off");
        options_.master_weights = text == "on";
      });
}

void PrecisionOptions::complete() {
  LossScaleRule& rule = options_.loss_scale;
  const bool halves =
      options_.precision == Precision::fp16 || options_.precision == Precision::bf16;
  if (!dynamic_ && (fixed_scale_ > 0 || options_.precision != Precision::fp16)) {
    const double scale = fixed_scale_ > 0 ? fixed_scale_ : 1;
    for (const char* const name :
         {"--first-loss-scale", "--loss-scale-interval", "--loss-scale-growth",
          "--loss-scale-backoff", "--loss-scale-floor", "--loss-scale-ceiling"}) {
      if (!given_.contains(name)) continue;
      throw OptionError(std::string(name) + " goes with --loss-scale dynamic; it is fixed here");
    }
    rule = {.first = scale, .floor = scale, .ceiling = scale};
  }
  if (rule.first < rule.floor || rule.first > rule.ceiling) {
    throw OptionError("the loss scale begins at " + std::to_string(rule.first) +
                      "; expected a value from --loss-scale-floor, " + std::to_string(rule.floor) +
                      ", to --loss-scale-ceiling, " + std::to_string(rule.ceiling));
  }
  if (rule.growth < 1) {
    throw OptionError("--loss-scale-growth is " + std::to_string(rule.growth) +
                      "; expected 1 or more");
  }
  if (rule.backoff >= 1) {
    throw OptionError("--loss-scale-backoff is " + std::to_string(rule.backoff) +
                      "; expected less than 1");
  }
  const auto needs_halves = [&](const char* option) {
    if (!halves) {
      throw OptionError(std::string(option) + " goes with --precision fp16 or bf16; it is " +
                        std::string(name_of(options_.precision)));
    }
  };
  if (!options_.master_weights) needs_halves("--master-weights off");
  if (options_.reduce_type == ReduceType::same) {
    needs_halves("--reduce-dtype same");
    if (options_.allreduce != AllReduceKind::nccl) {
      throw OptionError("--reduce-dtype same goes with --allreduce nccl; it is " +
                        std::string(name_of(options_.allreduce)));
    }
  }
}

}  // namespace ddp
