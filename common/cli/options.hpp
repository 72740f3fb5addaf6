#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace ddp {

enum class Activation { relu, gelu };
enum class LossKind { cross_entropy, mse };
enum class Precision { fp64, fp32, fp16, bf16 };
enum class Accumulate { running, pairwise };
enum class AllReduceKind { naive, ring, ring_segmented, tree, mpi, nccl };
enum class MpiBuffers { automatic, host, device };
enum class ReduceType { fp32, same };

/// What the gradient is multiplied by on its way through the layers, and when that changes. It is
/// fixed where floor and ceiling are equal.
struct LossScaleRule {
  double first = 1;
  int growth_interval = 2000;  ///< good steps in a row after which it grows
  double growth = 2;
  double backoff = 0.5;  ///< after a step that overflowed
  double floor = 1;
  double ceiling = 1;

  bool dynamic() const { return floor < ceiling; }
};
enum class Scaling { linear, sqrt, none };
enum class Schedule { constant, step, cosine };
enum class MomentumForm { gradient, velocity };

/// Everything a run is told from outside. The defaults are those of the command line.
struct Options {
  std::string data = "fashion-mnist";  ///< or "synthetic", "faint", or a folder of IDX files
  std::vector<int> layers = {784, 512, 256, 10};  ///< sizes of the MLP, input first
  Activation activation = Activation::relu;
  LossKind loss = LossKind::cross_entropy;
  Precision precision = Precision::fp32;

  int global_batch = 256;  ///< samples in one optimizer step, over all ranks; never depends on them
  int epochs = 3;
  std::optional<std::int64_t> steps;  ///< total optimizer steps; wins over `epochs`

  double learning_rate = 0.05;
  double momentum = 0.9;
  double weight_decay = 0;  ///< added to the gradient of weights, not of biases
  double clip_norm = 0;     ///< largest global gradient norm; 0 means no clipping
  std::uint64_t seed = 1;
  bool shuffle = true;

  std::optional<double>
      base_learning_rate;  ///< at base_batch; without it learning_rate is the rate
  int base_batch = 64;
  Scaling scaling = Scaling::linear;  ///< from base_batch to global_batch
  std::int64_t warmup_steps = 0;      ///< in which the rate grows, the last of them at its target
  double warmup_epochs = 0;           ///< the same in epochs; one of the two
  double warmup_from = 0;             ///< the rate that the ramp begins at, before the first step
  Schedule schedule = Schedule::constant;  ///< after the warm-up
  double decay_every_epochs = 0;           ///< Schedule::step, counted from the first step
  double decay_factor = 0.1;
  MomentumForm momentum_form = MomentumForm::gradient;

  int micro_batch = 0;  ///< at most so many samples in one pass; 0: all that there are
  Accumulate accumulate = Accumulate::running;

  AllReduceKind allreduce = AllReduceKind::naive;
  bool by_parameter = false;  ///< one all-reduce a parameter instead of one a step
  MpiBuffers mpi_buffers = MpiBuffers::automatic;
  double bucket_mb = 25;       ///< all-reduces gradients in parts of about so many MiB
  double first_bucket_mb = 1;  ///< the first of these
  bool overlap = true;         ///< while the backward pass goes on
  bool print_buckets = false;
  LossScaleRule loss_scale;
  ReduceType reduce_type = ReduceType::fp32;  ///< of the gradients that ranks send, with halves
  bool master_weights = true;  ///< without, halves are updated in place: a mistake to look at

  double timeout = 0;  ///< seconds that a rank waits for others; 0: for ever
  int check_replicas =
      0;  ///< compares the ranks' parameters every so many steps; 0: at start and end
  bool no_broadcast = false;     ///< each rank keeps its own first weights: a mistake to look at
  bool share_device = false;     ///< several ranks may use one real GPU; for tests
  bool check_gradients = false;  ///< compares every gradient with that of one rank and one pass

  int device = 0;            ///< index among the visible CUDA devices
  std::string metrics;       ///< JSON lines, one a step; empty: none
  std::string dump_samples;  ///< JSON lines with the sample ids of each step; empty: none
  std::string trace;         ///< Chrome trace of the work on the device; empty: none
  std::string save;          ///< checkpoint, written at the end; empty: none
  int save_every = 0;        ///< also after every so many steps; 0: only at the end
  std::string resume;        ///< checkpoint to go on from; empty: from the first weights
  bool quiet = false;        ///< no progress on stderr
};

}  // namespace ddp
