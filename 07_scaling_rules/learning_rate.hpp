#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numbers>
#include <string>

#include "common/cli/options.hpp"
#include "common/errors.hpp"

namespace ddp {

/// The rate for the global batch, which is all that one update averages over: micro-batches times
/// their size times the ranks. Linear: k times the batch, k times the rate (Goyal et al. 2017,
/// arXiv:1706.02677, section 2.1). Square root: sqrt(k) times the rate keeps the variance of a step
/// (Krizhevsky 2014, arXiv:1404.5997). With --lr it is that one, whatever the batch.
inline double target_rate(const Options& options) {
  double rate = options.base_learning_rate.value_or(options.learning_rate);
  if (!options.base_learning_rate) return rate;
  // [exercise 7.1] `rate` is for batches of options.base_batch. How large is ours?
  const double k = static_cast<double>(options.global_batch) / options.base_batch;
  if (options.scaling == Scaling::linear) rate *= k;
  if (options.scaling == Scaling::sqrt) rate *= std::sqrt(k);
  // [/exercise]
  return rate;
}

/// Which rate each update has, by its number alone: so all ranks have the same.
///
///     rate                 |        ________            step: times decay_factor, again and again
///     target               |      /         |________
///                          |    /  .  .                 cosine: half a wave from target to 0
///     warmup_from          |  /           .     .
///                          +--1--------W---------------- T   updates
struct RateSchedule {
  double target;
  double warmup_from;
  std::int64_t warmup_steps;  ///< W: the last of them is at the target
  std::int64_t total_steps;   ///< T
  Schedule kind;              ///< from update W on
  std::int64_t decay_every;   ///< updates, for Schedule::step
  double decay_factor;
};

/// As the options say it. Epochs become updates, at least one where they are not 0. Throws
/// OptionError for a ramp that would go down.
inline RateSchedule rate_schedule(const Options& options, int training_samples) {
  const std::int64_t an_epoch =
      (training_samples + options.global_batch - 1) / options.global_batch;
  const auto updates = [&](double epochs) {
    const double exact = std::min(epochs * static_cast<double>(an_epoch), 1e15);
    return epochs > 0 ? std::max<std::int64_t>(1, std::llround(exact)) : 0;
  };
  const double target = target_rate(options);
  if (options.warmup_from > target) {
    throw OptionError("--warmup-from is " + std::to_string(options.warmup_from) +
                      "; expected at most the rate that it leads to, " + std::to_string(target));
  }
  return {.target = target,
          .warmup_from = options.warmup_from,
          .warmup_steps = options.warmup_steps + updates(options.warmup_epochs),
          .total_steps = options.steps.value_or(options.epochs * an_epoch),
          .kind = options.schedule,
          .decay_every = std::max<std::int64_t>(1, updates(options.decay_every_epochs)),
          .decay_factor = options.decay_factor};
}

/// The rate of an update, counted from 1: an update, and no micro-batch; where steps can be
/// skipped, one that is applied. None is 0, which would be a step for nothing: warm-up begins one
/// part above warmup_from, and the cosine would reach 0 one update after the last.
__host__ __device__ inline double learning_rate(const RateSchedule& schedule, std::int64_t update) {
  // [exercise 7.2] Before update W the rate goes up by equal amounts, to the target in update W.
  if (update < schedule.warmup_steps) {
    const double part = static_cast<double>(update) / static_cast<double>(schedule.warmup_steps);
    return schedule.warmup_from + part * (schedule.target - schedule.warmup_from);
  }
  // [/exercise]
  if (schedule.kind == Schedule::step) {
    const std::int64_t drops = (update - 1) / schedule.decay_every;
    return schedule.target * std::pow(schedule.decay_factor, static_cast<double>(drops));
  }
  if (schedule.kind == Schedule::cosine) {
    const std::int64_t full = schedule.warmup_steps > 1 ? schedule.warmup_steps : 1;
    const double part =
        static_cast<double>(update - full) / static_cast<double>(schedule.total_steps + 1 - full);
    return schedule.target * (1 + std::cos(std::numbers::pi * part)) / 2;
  }
  return schedule.target;
}

}  // namespace ddp
