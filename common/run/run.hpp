#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/cli/options.hpp"
#include "common/cuda/stream.hpp"
#include "common/data/dataset.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// One optimizer step: which samples, in which order.
struct Step {
  std::int64_t number;                    ///< counted from 1 over the whole run
  int epoch;                              ///< counted from 1
  std::span<const std::uint32_t> samples;  ///< ids of the global batch; the last of an epoch is short
};

/// The samples of a step in device memory, valid until the next load().
template <class T>
struct Batch {
  const T* inputs;             ///< (count, input_size), standardised
  const std::int32_t* labels;  ///< (count), for cross-entropy; null for MSE
  const T* targets;            ///< (count, output_size), for MSE; null for cross-entropy
  int count;
};

struct StepRecord {
  std::int64_t step;
  int epoch;
  double loss;  ///< mean over the global batch, before the update
  double learning_rate;
  int samples;
  double seconds;  ///< on the device, from the end of the step before to the end of this one
};

struct Evaluation {
  double loss;      ///< mean over the test set
  double accuracy;  ///< share of samples whose largest output is the label's; NaN where there are none
};

/// What a run leaves behind; the program prints it and the tests read it.
struct TrainingResult {
  std::vector<StepRecord> steps;
  Evaluation test;
  std::uint64_t parameter_checksum = 0;
  double samples_per_second = 0;
  bool interrupted = false;  ///< ended early by SIGINT or SIGTERM
};

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
/// Nothing in the loop waits for the device: losses are copied to pinned memory and read a few steps
/// later; load() waits only if the host is more than two batches ahead.
template <class T>
class Run {
 public:
  /// Selects the device, opens the output files and reads the data, in this order, so that a
  /// mistake shows before training. Throws OptionError, InputError or DeviceError.
  Run(std::string_view stage, const Options& options);
  ~Run();

  const Options& options() const;
  const Dataset& training_data() const;
  const Dataset& test_data() const;

  /// Range over the steps to do. It ends after options.steps, after options.epochs, or after the
  /// step in which a SIGINT or SIGTERM came.
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

  /// The batch of `step` in device memory. Work that `compute` gets from now on waits for the copy,
  /// and the copy of the next batch, which starts here on a stream of its own, overlaps with it.
  Batch<T> load(const Step& step, const cuda::Stream& compute);

  /// Notes the loss and the flags that the step left in device memory at `scalars`; read a few steps
  /// later. Throws NonFiniteError or InputError, naming the step, once it has read a raised flag.
  void record(const Step& step, const StepScalars<T>* scalars, double learning_rate,
              const cuda::Stream& compute);

  /// Reads what is still on its way, then writes the end of the metrics and of the progress. The
  /// checksum covers the bits of `parameters`, the device's values in order of the model.
  TrainingResult finish(std::span<const std::span<const T>> parameters, const Evaluation& test,
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
