#include "common/cli/rate_options.hpp"

#include <limits>
#include <utility>

#include "common/cli/option_names.hpp"
#include "common/cli/parse_values.hpp"
#include "common/errors.hpp"

namespace ddp {

RateOptions::RateOptions(OptionTable& table, Options& options) : options_(options) {
  const Options defaults = options;
  const auto add = [&](Shown shown, const std::string& name, const std::string& type,
                       const auto& default_value, const std::string& description, auto read) {
    table.add(shown, name, type, default_value, description,
              [this, name, read](const std::string& text) {
                given_.insert(name);
                read(text);
              });
  };
  const auto number = [](const std::string& name, double& value, NumberRange range) {
    return
        [name, &value, range](const std::string& text) { value = parse_number(name, text, range); };
  };
  add(Shown::in_help, "--lr", "X", "by --base-lr", "learning rate, whatever the batch",
      [this](const std::string& text) {
        options_.learning_rate = parse_number("--lr", text, NumberRange::positive);
      });
  add(Shown::in_help, "--base-lr", "X", defaults.base_learning_rate.value_or(0),
      "learning rate for batches of --base-batch", [this](const std::string& text) {
        options_.base_learning_rate = parse_number("--base-lr", text, NumberRange::positive);
      });
  add(Shown::in_help_all, "--base-batch", "N", defaults.base_batch, "the batch of --base-lr",
      [this](const std::string& text) {
        options_.base_batch = static_cast<int>(
            parse_integer("--base-batch", text, 1, std::numeric_limits<int>::max()));
      });
  add(Shown::in_help, "--scaling", "linear|sqrt|none", name_of(defaults.scaling),
      "how the rate grows with the global batch", [this](const std::string& text) {
        options_.scaling = parse_choice<Scaling>("--scaling", text);
      });
  add(Shown::in_help, "--warmup-steps", "N", defaults.warmup_steps,
      "steps in which the rate grows to what it is to be", [this](const std::string& text) {
        options_.warmup_steps = parse_integer("--warmup-steps", text, 0, 2'000'000'000);
      });
  add(Shown::in_help_all, "--warmup-epochs", "X", defaults.warmup_epochs, "the same in epochs",
      number("--warmup-epochs", options_.warmup_epochs, NumberRange::not_negative));
  add(Shown::in_help_all, "--warmup-from", "X", defaults.warmup_from,
      "rate at which the ramp begins; the first step is one part above it",
      number("--warmup-from", options_.warmup_from, NumberRange::not_negative));
  add(Shown::in_help, "--schedule", "constant|step|cosine", name_of(defaults.schedule),
      "of the rate after the warm-up", [this](const std::string& text) {
        options_.schedule = parse_choice<Schedule>("--schedule", text);
      });
  add(Shown::in_help_all, "--decay-every-epochs", "X", "none",
      "with --schedule step: multiplies the rate by --decay-factor after every X epochs",
      number("--decay-every-epochs", options_.decay_every_epochs, NumberRange::positive));
  add(Shown::in_help_all, "--decay-factor", "X", defaults.decay_factor, "of --schedule step",
      number("--decay-factor", options_.decay_factor, NumberRange::positive));
  add(Shown::in_help_all, "--momentum-form", "gradient|velocity", name_of(defaults.momentum_form),
      "what momentum sums up: gradients, or steps (rate times gradient)",
      [this](const std::string& text) {
        options_.momentum_form = parse_choice<MomentumForm>("--momentum-form", text);
      });
}

void RateOptions::check() const {
  if (given("--lr")) {
    for (const char* const other : {"--base-lr", "--base-batch", "--scaling"}) {
      if (!given(other)) continue;
      throw OptionError(std::string("--lr is the rate whatever the batch, and ") + other +
                        " belongs to a rate that is scaled to it; expected --lr, or --base-lr with "
                        "--base-batch and --scaling");
    }
    options_.base_learning_rate.reset();
  }
  if (given("--warmup-steps") && given("--warmup-epochs")) {
    throw OptionError("--warmup-steps and --warmup-epochs both say how long; expected one of them");
  }
  if (given("--warmup-from") && options_.warmup_steps == 0 && options_.warmup_epochs == 0) {
    throw OptionError(
        "--warmup-from needs a warm-up; expected --warmup-steps or --warmup-epochs with it");
  }
  const bool steps_down = options_.schedule == Schedule::step;
  for (const char* const name : {"--decay-every-epochs", "--decay-factor"}) {
    if (given(name) && !steps_down) {
      throw OptionError(std::string(name) + " needs --schedule step; it is " +
                        std::string(name_of(options_.schedule)));
    }
  }
  if (steps_down && !given("--decay-every-epochs")) {
    throw OptionError("--schedule step needs --decay-every-epochs: after how many the rate drops");
  }
}

}  // namespace ddp
