#pragma once

#include <iterator>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "common/cli/options.hpp"
#include "common/cuda/stream.hpp"
#include "common/data/dataset.hpp"
#include "common/io/training_result.hpp"
#include "common/run/checkpoint.hpp"
#include "common/run/ranks.hpp"
#include "common/run/step.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// Everything around a training loop that is not the lesson: device, data, prefetching, metrics,
/// progress, signals. The loop stays on one page:
///
///     Run<T> run("01_single_gpu", options);
///     for (const Step& step : run.steps()) {
///       const Batch<T> batch = run.load(step, stream);
///       ...
///       run.record(step, scalars, learning_rate, stream);
///     }
///     return run.finish(parameters, evaluation, stream);
///
/// Nothing in the loop waits for the device: losses are copied to pinned memory and read a few
/// steps later; load() waits only if the host is more than two batches ahead.
///
/// With several ranks, all make the same calls. Rank 0 alone writes and prints; a rank that cannot
/// go on ends them all.
template <class T>
class Run {
 public:
  /// Selects the device, opens the output files and reads the data, in this order, so that a
  /// mistake shows before training. Throws OptionError, InputError or DeviceError. `cut` says which
  /// micro-batches a rank takes of a batch; `max_micro_batch` is the largest that it makes.
  Run(std::string_view stage, const Options& options, const Cut& cut, int max_micro_batch,
      const Ranks& ranks = alone);
  /// For one rank that takes each batch whole.
  Run(std::string_view stage, const Options& options)
      : Run(stage, options, whole_batch, options.global_batch) {}
  ~Run();

  /// Whether the device is a simulated one.
  bool simulated() const;
  const Dataset& training_data() const;
  const Dataset& test_data() const;

  /// Range over the steps to do. It ends after options.steps, after options.epochs, or after the
  /// step in which a SIGINT or SIGTERM came. Ranks get signals at different steps: several of them
  /// stop a few steps later, all at the same one, once they have read StepScalars::stop.
  class StepIterator;
  struct StepRange {
    Run* run;
    StepIterator begin() const;
    std::default_sentinel_t end() const { return {}; }
  };
  StepRange steps() { return {this}; }
  class StepIterator {
   public:
    explicit StepIterator(Run* run) : run_(run) { run_->advance(); }
    const Step& operator*() const { return run_->step(); }
    StepIterator& operator++() {
      run_->advance();
      return *this;
    }
    bool operator==(std::default_sentinel_t) const { return run_->done(); }

   private:
    Run* run_;
  };

  /// The samples of `micro` in device memory. Work that `compute` gets from now on waits for the
  /// copy, and the copy of the next ones, which starts here on a stream of its own, overlaps with
  /// it.
  Batch<T> load(const MicroBatch& micro, const cuda::Stream& compute);
  /// The only micro-batch of `step`.
  Batch<T> load(const Step& step, const cuda::Stream& compute) {
    return load(step.micro_batches.front(), compute);
  }

  /// Whether this rank got a SIGINT or SIGTERM: for StepScalars::stop.
  bool stop_requested() const;

  /// The step's scalars in device memory, cleared at first. They belong to the run.
  StepScalars<T>* scalars(const cuda::Stream& compute);

  /// Names the device buffers that make up the state of the training, once, before the first step.
  /// --save keeps them, and --resume fills them here and sets the step to go on from. Throws
  /// InputError or OptionError where the file does not fit; nothing is loaded then.
  void track(std::vector<NamedBuffer<T>> state, const cuda::Stream& compute);

  /// Notes the loss and the flags that the step left in device memory at `scalars`; read a few
  /// steps later. Throws NonFiniteError or InputError, naming the step, once all ranks have read a
  /// raised flag. With --save-every, every so many steps, waits for the step and writes the
  /// checkpoint.
  void record(const Step& step, const StepScalars<T>* scalars, double learning_rate,
              const cuda::Stream& compute);

  /// The same where the rate is in `scalars`, too.
  void record(const Step& step, const StepScalars<T>* scalars, const cuda::Stream& compute) {
    record(step, scalars, 0, compute);
  }

  /// Notes how far the step's gradient is from that of one rank and one pass (--check-gradients).
  void record(const GradientDifference& difference);

  /// Reads what is still on its way, then writes the checkpoint and the end of the metrics. The
  /// checksum covers the bits of `parameters`, the device's values in order of the model. The sums
  /// of the ranks' `test` are added: each rank has evaluated its share of the test set.
  TrainingResult finish(std::span<const std::span<const T>> parameters, const EvaluationSums& test,
                        const cuda::Stream& compute);

 private:
  void advance();
  const Step& step() const;
  bool done() const;

  struct Impl;
  std::unique_ptr<Impl> impl_;
};

template <class T>
typename Run<T>::StepIterator Run<T>::StepRange::begin() const {
  return StepIterator(run);
}

extern template class Run<float>;
extern template class Run<double>;

}  // namespace ddp
