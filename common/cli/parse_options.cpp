#include "common/cli/parse_options.hpp"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/option_names.hpp"
#include "common/cli/parse_values.hpp"
#include "common/errors.hpp"
#include "common/io/version.hpp"

namespace ddp {
namespace {

constexpr int largest_batch = 1 << 20;
constexpr int most_epochs = 1'000'000;
constexpr std::int64_t most_steps = 2'000'000'000;
// Kernels and cuBLAS count the elements of a matrix in an int.
constexpr std::int64_t most_elements = std::numeric_limits<int>::max();

enum class Shown { in_help, in_help_all };

// CLI11 splits the command line and prints the help; the values are read by our own strict readers.
class OptionTable {
 public:
  explicit OptionTable(CLI::App& app) : app_(app) {}

  template <class Value>
  void add(Shown shown, const std::string& name, const std::string& type,
           const Value& default_value, const std::string& description,
           std::function<void(const std::string&)> read) {
    const auto check_and_read = [name, type, read = std::move(read)](const std::string& text) {
      // --metrics --steps 3 is a forgotten name, not a file called --steps.
      if (text.empty() || text.starts_with("--")) {
        throw OptionError(fmt::format("{} needs a value: {} {}", name, name, type));
      }
      read(text);
    };
    const std::string meaning = fmt::format("{} ({})", description, default_value);
    CLI::Option* const option =
        app_.add_option_function<std::string>(name, check_and_read, meaning);
    option->type_name(type);
    note(option, shown);
  }

  void add_flag(Shown shown, const std::string& name, bool& value, const std::string& description) {
    note(app_.add_flag(name, value, description)->disable_flag_override(), shown);
  }

  /// Of all options, for the message about an unknown one.
  const std::string& names() const { return names_; }

  /// For --help. Not earlier: CLI11 leaves hidden options without a name in its messages too.
  void hide_the_rest() {
    for (CLI::Option* const option : rest_) option->group("");
  }

 private:
  void note(CLI::Option* option, Shown shown) {
    names_ += (names_.empty() ? "" : ", ") + option->get_name();
    if (shown == Shown::in_help_all) rest_.push_back(option);
  }

  CLI::App& app_;
  std::string names_;
  std::vector<CLI::Option*> rest_;
};

void add_model_options(OptionTable& table, Options& options) {
  const Options defaults;
  table.add(Shown::in_help, "--data", "NAME|FOLDER", defaults.data,
            "fashion-mnist, synthetic, or a folder with the four IDX files, plain or .gz",
            [&](const std::string& text) { options.data = text; });
  table.add(Shown::in_help, "--layers", "SIZES", layers_text(defaults.layers),
            "sizes of the layers, input first; 784-512x8-10 repeats a size",
            [&](const std::string& text) { options.layers = parse_layers("--layers", text); });
  table.add(Shown::in_help_all, "--activation", "relu|gelu", name_of(defaults.activation),
            "after each layer but the last", [&](const std::string& text) {
              options.activation = parse_choice<Activation>("--activation", text);
            });
  table.add(Shown::in_help_all, "--loss", "cross-entropy|mse", name_of(defaults.loss),
            "mse on labels trains towards one-hot rows", [&](const std::string& text) {
              options.loss = parse_choice<LossKind>("--loss", text);
            });
  table.add(Shown::in_help_all, "--precision", "fp64|fp32", name_of(defaults.precision),
            "of all numbers on the device", [&](const std::string& text) {
              options.precision = parse_choice<Precision>("--precision", text);
            });
}

void add_training_options(OptionTable& table, Options& options) {
  const Options defaults;
  table.add(Shown::in_help, "--global-batch", "N", defaults.global_batch,
            "samples in one step, over all ranks", [&](const std::string& text) {
              options.global_batch =
                  static_cast<int>(parse_integer("--global-batch", text, 1, largest_batch));
            });
  table.add(Shown::in_help, "--epochs", "N", defaults.epochs, "passes over the training set",
            [&](const std::string& text) {
              options.epochs = static_cast<int>(parse_integer("--epochs", text, 1, most_epochs));
            });
  table.add(Shown::in_help, "--steps", "N", "all of the epochs",
            "steps in total; wins over --epochs", [&](const std::string& text) {
              options.steps = parse_integer("--steps", text, 0, most_steps);
            });
  table.add(Shown::in_help, "--lr", "X", defaults.learning_rate, "learning rate",
            [&](const std::string& text) {
              options.learning_rate = parse_number("--lr", text, NumberRange::positive);
            });
  table.add(Shown::in_help_all, "--momentum", "X", defaults.momentum,
            "of the optimizer, 0 for none", [&](const std::string& text) {
              options.momentum = parse_number("--momentum", text, NumberRange::below_one);
            });
  table.add(Shown::in_help_all, "--weight-decay", "X", defaults.weight_decay,
            "added to the gradient of weights, not of biases", [&](const std::string& text) {
              options.weight_decay =
                  parse_number("--weight-decay", text, NumberRange::not_negative);
            });
  table.add(Shown::in_help_all, "--clip-norm", "X", defaults.clip_norm,
            "largest norm of the whole gradient; 0 clips nothing", [&](const std::string& text) {
              options.clip_norm = parse_number("--clip-norm", text, NumberRange::not_negative);
            });
  table.add(Shown::in_help, "--seed", "N", defaults.seed, "of the first weights and of the order",
            [&](const std::string& text) { options.seed = parse_seed("--seed", text); });
}

void add_machine_options(OptionTable& table, Options& options) {
  const Options defaults;
  table.add(Shown::in_help_all, "--device", "N", defaults.device, "which CUDA device to use",
            [&](const std::string& text) {
              // Which ones there are is known only when the device is selected.
              options.device =
                  static_cast<int>(parse_integer("--device", text, std::numeric_limits<int>::min(),
                                                 std::numeric_limits<int>::max()));
            });
  table.add(Shown::in_help, "--metrics", "FILE", "none", "writes JSON lines, one a step",
            [&](const std::string& text) { options.metrics = text; });
  table.add(Shown::in_help_all, "--dump-samples", "FILE", "none",
            "writes JSON lines with the sample ids of each step",
            [&](const std::string& text) { options.dump_samples = text; });
  table.add(Shown::in_help_all, "--trace", "FILE", "none",
            "writes when what ran on the device, as a Chrome trace",
            [&](const std::string& text) { options.trace = text; });
  table.add(Shown::in_help_all, "--save", "FILE", "none",
            "writes weights and optimizer at the end, as safetensors",
            [&](const std::string& text) { options.save = text; });
  table.add(Shown::in_help_all, "--save-every", "N", "only at the end",
            "also after every N steps, to the file of --save", [&](const std::string& text) {
              options.save_every = static_cast<int>(
                  parse_integer("--save-every", text, 1, std::numeric_limits<int>::max()));
            });
  table.add(Shown::in_help_all, "--resume", "FILE", "none",
            "goes on from a file of --save, as if it had not stopped",
            [&](const std::string& text) { options.resume = text; });
}

void check_outputs(const std::vector<std::pair<std::string, std::string>>& outputs) {
  for (auto one = outputs.begin(); one != outputs.end(); ++one) {
    for (auto other = outputs.begin(); other != one; ++other) {
      if (one->second.empty() || one->second != other->second) continue;
      throw OptionError(fmt::format("{} and {} both name {}; they must differ", other->first,
                                    one->first, one->second));
    }
  }
}

void check_together(const Options& options) {
  const std::vector<int>& layers = options.layers;
  const std::int64_t widest = *std::max_element(layers.begin(), layers.end());
  if (widest * options.global_batch > most_elements) {
    throw OptionError(
        fmt::format("--global-batch {} with a layer of {} in --layers makes a matrix of {} "
                    "elements; at most {} "
                    "fit",
                    options.global_batch, widest, widest * options.global_batch, most_elements));
  }
  for (std::size_t index = 1; index < layers.size(); ++index) {
    const std::int64_t elements = std::int64_t{layers[index - 1]} * layers[index];
    if (elements > most_elements) {
      throw OptionError(fmt::format("--layers {}-{} makes a matrix of {} elements; at most {} fit",
                                    layers[index - 1], layers[index], elements, most_elements));
    }
  }
  check_outputs({{"--metrics", options.metrics},
                 {"--dump-samples", options.dump_samples},
                 {"--trace", options.trace},
                 {"--save", options.save}});
  if (options.save_every > 0 && options.save.empty()) {
    throw OptionError("--save-every needs --save FILE, the file to write");
  }
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, std::string_view stage,
                                     std::ostream& out) {
  CLI::App app(fmt::format("{}: trains an MLP and prints how well it does.", stage),
               std::string(stage));
  app.set_help_flag("-h,--help", "the options that matter most");
  app.set_help_all_flag("--help-all", "all options");
  app.set_version_flag("--version", fmt::format("{} {}", stage, project_version()),
                       "the version of this program");
  app.footer("The value in parentheses is taken where an option is not given.");
  app.allow_extras();

  Options options;
  bool no_shuffle = false;
  OptionTable table(app);
  add_model_options(table, options);
  add_training_options(table, options);
  table.add_flag(Shown::in_help_all, "--no-shuffle", no_shuffle, "keep the order of the data set");
  add_machine_options(table, options);
  table.add_flag(Shown::in_help_all, "--quiet", options.quiet, "no progress on stderr");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    table.hide_the_rest();
    out << app.help();
    return std::nullopt;
  } catch (const CLI::CallForAllHelp&) {
    out << app.help();
    return std::nullopt;
  } catch (const CLI::CallForVersion& version) {
    out << version.what() << '\n';
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    throw OptionError(error.what());
  }
  if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) {
    throw OptionError(
        fmt::format("unknown option '{}'; the options are {}", unknown.front(), table.names()));
  }
  options.shuffle = !no_shuffle;
  check_together(options);
  return options;
}

}  // namespace ddp
