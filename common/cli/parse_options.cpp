#include "common/cli/parse_options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "common/cli/option_names.hpp"
#include "common/cli/option_table.hpp"
#include "common/cli/parse_values.hpp"
#include "common/cli/precision_options.hpp"
#include "common/cli/rate_options.hpp"
#include "common/errors.hpp"
#include "common/io/version.hpp"

namespace ddp {
namespace {

constexpr int largest_batch = 1 << 20;
constexpr int most_epochs = 1'000'000;
constexpr std::int64_t most_steps = 2'000'000'000;
// Kernels and cuBLAS count the elements of a matrix in an int.
constexpr std::int64_t most_elements = std::numeric_limits<int>::max();

void add_model_options(OptionTable& table, Options& options, int stage) {
  const Options defaults = options;
  table.add(Shown::in_help, "--data", "NAME|FOLDER", defaults.data,
            "fashion-mnist, synthetic, faint, or a folder with the four IDX files, plain or .gz",
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
  const bool halves = stage >= 6;
  const std::string names = halves ? "fp64|fp32|fp16|bf16" : "fp64|fp32";
  table.add(halves ? Shown::in_help : Shown::in_help_all, "--precision", names,
            name_of(defaults.precision),
            halves ? "of activations, and of the weights to multiply with"
                   : "of all numbers on the device",
            [&, halves, names](const std::string& text) {
              options.precision = parse_choice<Precision>("--precision", text);
              if (!halves && options.precision != Precision::fp64 &&
                  options.precision != Precision::fp32) {
                refuse_value("--precision", text, "one of " + names + " in this stage");
              }
            });
}

void add_training_options(OptionTable& table, Options& options, int stage) {
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
  if (stage < 7) {  // where it is one of several options
    table.add(Shown::in_help, "--lr", "X", defaults.learning_rate, "learning rate",
              [&](const std::string& text) {
                options.learning_rate = parse_number("--lr", text, NumberRange::positive);
              });
  }
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

// From stage 02 on.
void add_accumulation_options(OptionTable& table, Options& options) {
  const Options defaults;
  table.add(Shown::in_help, "--micro-batch", "N", "the whole batch",
            "at most so many samples in one pass through the model", [&](const std::string& text) {
              options.micro_batch =
                  static_cast<int>(parse_integer("--micro-batch", text, 1, largest_batch));
            });
  table.add(Shown::in_help_all, "--accumulate", "running|pairwise", name_of(defaults.accumulate),
            "order in which micro-batches are added; pairwise is the same for 1, 2, 4, ... ranks",
            [&](const std::string& text) {
              options.accumulate = parse_choice<Accumulate>("--accumulate", text);
            });
  table.add_flag(Shown::in_help_all, "--check-gradients", options.check_gradients,
                 "compare each step's gradient with that of one pass (slow)");
}

// From stage 03 on.
void add_rank_options(OptionTable& table, Options& options, int stage) {
  const Options defaults;
  options.allreduce = stage == 3   ? AllReduceKind::naive
                      : stage == 4 ? AllReduceKind::ring
                                   : AllReduceKind::nccl;
  std::vector<AllReduceKind> available;
  for (const auto& [name, kind] : choices<AllReduceKind>) {
    const int first_stage = kind == AllReduceKind::naive ? 3 : kind == AllReduceKind::nccl ? 5 : 4;
    if (stage >= first_stage) available.push_back(kind);
  }
  std::string names;
  for (const AllReduceKind kind : available) {
    names += (names.empty() ? "" : "|") + std::string(name_of(kind));
  }
  table.add(
      Shown::in_help, "--allreduce", names, name_of(options.allreduce),
      "how the ranks add their gradients", [&, available, names](const std::string& text) {
        options.allreduce = parse_choice<AllReduceKind>("--allreduce", text);
        if (std::find(available.begin(), available.end(), options.allreduce) == available.end()) {
          refuse_value("--allreduce", text, "one of " + names + " in this stage");
        }
      });
  if (stage < 5) {  // where buckets come instead
    table.add_flag(Shown::in_help_all, "--by-parameter", options.by_parameter,
                   "one all-reduce a parameter instead of one a step");
  }
  table.add(Shown::in_help_all, "--mpi-buffers", "auto|host|device", name_of(defaults.mpi_buffers),
            "whether MPI gets device pointers; auto asks the library",
            [&](const std::string& text) {
              options.mpi_buffers = parse_choice<MpiBuffers>("--mpi-buffers", text);
            });
  table.add(Shown::in_help, "--timeout", "SECONDS", "for ever",
            "how long a rank waits for the others", [&](const std::string& text) {
              options.timeout = parse_number("--timeout", text, NumberRange::positive);
            });
  table.add(Shown::in_help_all, "--check-replicas", "N", "only first and last",
            "compares the ranks' parameters after every N steps", [&](const std::string& text) {
              options.check_replicas = static_cast<int>(
                  parse_integer("--check-replicas", text, 1, std::numeric_limits<int>::max()));
            });
  table.add_flag(Shown::in_help_all, "--no-broadcast", options.no_broadcast,
                 "each rank keeps its own first weights: a mistake to look at");
  table.add_flag(Shown::in_help_all, "--share-device", options.share_device,
                 "several ranks may use one GPU: for tests");
}

// From stage 05 on.
void add_bucket_options(OptionTable& table, Options& options) {
  table.add(Shown::in_help, "--bucket-mb", "X", options.bucket_mb,
            "a bucket of gradients is full from so many MiB on; 0: one a parameter",
            [&](const std::string& text) {
              options.bucket_mb = parse_number("--bucket-mb", text, NumberRange::not_negative);
            });
  table.add(Shown::in_help_all, "--first-bucket-mb", "X", options.first_bucket_mb,
            "the same for the first bucket", [&](const std::string& text) {
              options.first_bucket_mb =
                  parse_number("--first-bucket-mb", text, NumberRange::not_negative);
            });
  table.add(Shown::in_help, "--overlap", "on|off", "on",
            "all-reduce buckets while the backward pass goes on", [&](const std::string& text) {
              if (text != "on" && text != "off") refuse_value("--overlap", text, "on or off");
              options.overlap = text == "on";
            });
  table.add_flag(Shown::in_help_all, "--print-buckets", options.print_buckets,
                 "print which parameters go together, before training");
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

/// Stage 05 is about overlap, which takes many layers to be seen, and buckets that are smaller
/// than they are.
Options defaults_of(int stage) {
  Options options;
  if (stage == 5) {
    options.layers = {784, 512, 512, 512, 512, 512, 512, 512, 512, 10};
    options.bucket_mb = 1;
  }
  if (stage >= 7) options.base_learning_rate = 0.0125;  // at 64, so 0.05 at 256, as before
  return options;
}

/// 4 for "04_ring_allreduce"; 0 for a name of another form.
int stage_number(std::string_view stage) {
  int number = 0;
  std::from_chars(stage.data(), stage.data() + stage.size(), number);
  return number;
}

}  // namespace

std::optional<Options> parse_options(int argc, const char* const* argv, std::string_view stage,
                                     std::ostream& out) {
  const int number = stage_number(stage);
  Options options = defaults_of(number);
  bool no_shuffle = false;
  OptionTable table(fmt::format("{}: trains an MLP and prints how well it does.", stage),
                    std::string(stage));
  add_model_options(table, options, number);
  add_training_options(table, options, number);
  std::optional<RateOptions> rate;
  if (number >= 7) rate.emplace(table, options);
  table.add_flag(Shown::in_help_all, "--no-shuffle", no_shuffle, "keep the order of the data set");
  if (number >= 2) add_accumulation_options(table, options);
  if (number >= 3) add_rank_options(table, options, number);
  if (number >= 5) add_bucket_options(table, options);
  std::optional<PrecisionOptions> precision;
  if (number >= 6) precision.emplace(table, options);
  add_machine_options(table, options);
  table.add_flag(Shown::in_help_all, "--quiet", options.quiet, "no progress on stderr");
  const std::string version = fmt::format("{} {}", stage, project_version());
  if (const std::optional<std::string> answer = table.parse(argc, argv, version)) {
    out << *answer;
    return std::nullopt;
  }
  options.shuffle = !no_shuffle;
  check_together(options);
  if (precision) precision->complete();
  if (rate) rate->check();
  return options;
}

}  // namespace ddp
