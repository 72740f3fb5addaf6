#include "common/run/run.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <iostream>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/data/batch_sampler.hpp"
#include "common/errors.hpp"
#include "common/io/checksum.hpp"
#include "common/io/metrics.hpp"
#include "common/io/progress.hpp"
#include "common/io/replace_file.hpp"
#include "common/run/agree.hpp"
#include "common/run/device.hpp"
#include "common/run/fault.hpp"
#include "common/run/loader.hpp"
#include "common/run/signals.hpp"
#include "common/run/step_log.hpp"
#include "common/run/trace_file.hpp"

namespace ddp {
namespace {

// Rank 0 alone writes.
template <class File, class... Facts>
std::optional<File> open_if_named(const Ranks& ranks, const std::string& path, Facts... facts) {
  if (path.empty() || ranks.rank() != 0) return std::nullopt;
  return std::optional<File>(std::in_place, path, std::move(facts)...);
}

// All ranks have one, of which rank 0's alone has the file.
std::optional<TraceFile> open_trace(std::string_view stage, const Options& options,
                                    const Device& device, const Ranks& ranks) {
  if (options.trace.empty()) return std::nullopt;
  return std::optional<TraceFile>(
      std::in_place, options.trace,
      TraceFile::Process{std::string(stage), device.name, device.simulated}, ranks);
}

std::string checked_save_path(const Options& options, const Ranks& ranks) {
  if (options.save.empty() || ranks.rank() != 0) return {};
  check_replaceable(options.save);
  return options.save;
}

// Of an MLP: a weight for each pair of neighbours and a bias for each that is no input.
std::int64_t parameter_count(const std::vector<int>& layers) {
  std::int64_t count = 0;
  for (std::size_t layer = 1; layer < layers.size(); ++layer) {
    count += (std::int64_t{layers[layer - 1]} + 1) * layers[layer];
  }
  return count;
}

int cuda_runtime_version() {
  int version = 0;
  cuda::check(cudaRuntimeGetVersion(&version));
  return version;
}

}  // namespace

template <class T>
struct Run<T>::Impl {
  // In this order, so that a mistake shows early and nothing slow comes before it.
  Impl(std::string_view stage, const Options& run_options, const Cut& run_cut, int max_micro_batch,
       const Ranks& run_ranks)
      : options(run_options),
        cut(run_cut),
        ranks(run_ranks),
        fault(fault_from_environment(ranks.rank(), ranks.size())),
        device(select_device(options.device)),
        metrics(open_if_named<MetricsFile>(ranks, options.metrics)),
        sample_dump(open_if_named<SampleDump>(ranks, options.dump_samples)),
        trace(open_trace(stage, options, device, ranks)),
        save_path(checked_save_path(options, ranks)),
        data(load_data(options)),
        sampler(data.train.size(), options.global_batch, options.seed, options.shuffle),
        total_steps(options.steps.value_or(options.epochs * sampler.steps_per_epoch())),
        loader(data.train, options.loss, std::min(max_micro_batch, data.train.size()), fault),
        progress(std::cerr, progress_look_of_stderr(options.quiet || ranks.rank() != 0),
                 total_steps, sampler.steps_per_epoch()),
        log(ranks, metrics ? &*metrics : nullptr, progress) {
    if (metrics) metrics->run(describe(stage), options);
    cuda::restart_peak_device_bytes();  // what the loader holds counts
  }

  RunDescription describe(std::string_view stage) const {
    return {.stage = std::string(stage),
            .world_size = ranks.size(),
            .device_name = device.name,
            .simulated = device.simulated,
            .parameter_count = parameter_count(options.layers),
            .cuda_runtime_version = cuda_runtime_version(),
            .train_samples = data.train.size(),
            .test_samples = data.test.size(),
            .input_mean = data.train.input_mean(),
            .input_std = data.train.input_std()};
  }

  /// The state after the last step, once it is known to be good. Rank 0 writes; no rank goes on
  /// before the file is complete.
  void save(const cuda::Stream& compute) {
    if (options.save.empty() || saved_position == position) return;
    on_all_ranks(ranks, [&] {
      if (ranks.rank() == 0) save_checkpoint<T>(save_path, options, position, state, compute);
    });
    saved_position = position;
  }

  Step step_at(std::int64_t number) {
    Step step{number, sampler.epoch_of(number), sampler.batch(number), {}};
    for (const SampleIds samples : cut(step.samples, ranks.rank(), ranks.size())) {
      step.micro_batches.push_back({number, static_cast<int>(step.micro_batches.size()), samples});
    }
    return step;
  }

  void dump_samples(const Step& step) {
    for (int rank = 0; rank < ranks.size(); ++rank) {
      std::vector<std::uint32_t> ids;
      for (const SampleIds part : cut(step.samples, rank, ranks.size())) {
        ids.insert(ids.end(), part.begin(), part.end());
      }
      sample_dump->step(step.number, rank, ids);
    }
  }

  /// The mean over the whole test set, of which each rank has seen a share.
  Evaluation mean_of_all(const EvaluationSums& mine) const {
    EvaluationSums all{0, 0, 0};
    for (const EvaluationSums& sums : all_gather_value(ranks, mine)) {
      all.loss_sum += sums.loss_sum;
      all.correct += sums.correct;
      all.samples += sums.samples;
    }
    const auto samples = static_cast<double>(all.samples);
    return {all.loss_sum / samples, all.correct / samples};
  }

  const Options options;
  const Cut cut;
  const Ranks& ranks;
  const Traffic traffic_before = ranks.traffic();
  const std::optional<Fault> fault;
  const Device device;
  std::optional<MetricsFile> metrics;
  std::optional<SampleDump> sample_dump;
  std::optional<TraceFile> trace;
  const std::string save_path;
  const TrainAndTest data;
  BatchSampler sampler;
  const std::int64_t total_steps;
  Loader<T> loader;
  const cuda::DeviceBuffer<StepScalars<T>> step_scalars{1};
  Progress progress;
  StepLog<T> log;
  std::vector<GradientDifference> gradient_differences;
  std::vector<NamedBuffer<T>> state;  // what a checkpoint keeps
  std::int64_t position = 0;          // the last step that was begun, or was resumed from
  std::int64_t saved_position = -1;
  Step current{};
  std::optional<Step> following;
  std::optional<cuda::Range> step_range;  // from one advance() to the next
  bool started = false;
  bool interrupted = false;
  StopSignals stop_signals;
};

template <class T>
Run<T>::Run(std::string_view stage, const Options& options, const Cut& cut, int max_micro_batch,
            const Ranks& ranks) {
  on_all_ranks(
      ranks, [&] { impl_ = std::make_unique<Impl>(stage, options, cut, max_micro_batch, ranks); });
}

template <class T>
Run<T>::~Run() = default;

template <class T>
bool Run<T>::simulated() const {
  return impl_->device.simulated;
}

template <class T>
const Dataset& Run<T>::training_data() const {
  return impl_->data.train;
}

template <class T>
const Dataset& Run<T>::test_data() const {
  return impl_->data.test;
}

template <class T>
StepScalars<T>* Run<T>::scalars(const cuda::Stream& compute) {
  cuda::clear_async(impl_->step_scalars.data(), 1, compute);
  return impl_->step_scalars.data();
}

template <class T>
void Run<T>::track(std::vector<NamedBuffer<T>> state, const cuda::Stream& compute) {
  impl_->state = std::move(state);
  const std::string& path = impl_->options.resume;
  if (path.empty()) return;
  on_all_ranks(impl_->ranks, [&] {
    if (impl_->ranks.rank() != 0) return;
    const std::int64_t step = load_checkpoint<T>(path, impl_->options, impl_->state, compute);
    if (step > impl_->total_steps) {
      throw OptionError("the run ends after step " + std::to_string(impl_->total_steps) +
                        " by --steps or --epochs, but --resume " + path + " is at step " +
                        std::to_string(step));
    }
    impl_->position = step;
  });
  impl_->position = share_state<T>(impl_->ranks, impl_->position, impl_->state, compute);
}

template <class T>
void Run<T>::advance() {
  const std::int64_t next = impl_->position + 1;
  const bool stop = impl_->ranks.size() == 1 ? stop_requested() : impl_->log.stops_before(next);
  impl_->step_range.reset();
  impl_->interrupted = next <= impl_->total_steps && stop;
  if (next > impl_->total_steps || impl_->interrupted) {
    impl_->current = {};
    return;
  }
  impl_->current = impl_->step_at(next);
  impl_->following.reset();
  if (next < impl_->total_steps) impl_->following = impl_->step_at(next + 1);
  impl_->position = next;
  impl_->ranks.set_step(next);
  impl_->step_range.emplace("step", next);
}

template <class T>
bool Run<T>::stop_requested() const {
  return impl_->stop_signals.received();
}

template <class T>
const Step& Run<T>::step() const {
  return impl_->current;
}

template <class T>
bool Run<T>::done() const {
  return impl_->current.number == 0;
}

template <class T>
Batch<T> Run<T>::load(const MicroBatch& micro, const cuda::Stream& compute) {
  if (!std::exchange(impl_->started, true)) {
    cuda::name_stream(compute, "compute");
    impl_->log.start(compute);
  }
  if (micro.index == 0 && impl_->sample_dump) impl_->dump_samples(impl_->current);
  const std::vector<MicroBatch>& mine = impl_->current.micro_batches;
  const auto next_index = static_cast<std::size_t>(micro.index) + 1;
  std::optional<MicroBatch> next;
  if (next_index < mine.size()) {
    next = mine[next_index];
  } else if (impl_->following) {
    next = impl_->following->micro_batches.front();
  }
  return impl_->loader.load(micro, next, compute);
}

template <class T>
void Run<T>::record(const Step& step, const StepScalars<T>* scalars, double learning_rate,
                    const cuda::Stream& compute) {
  trigger(impl_->fault, step.number);
  const cuda::Range range("record");
  impl_->log.push({step.number, step.epoch, step.count(), learning_rate}, scalars, compute);
  if (impl_->options.save_every > 0 && step.number % impl_->options.save_every == 0) {
    impl_->log.read_all();  // throws rather than to save what is not good
    impl_->save(compute);
  }
}

template <class T>
void Run<T>::record(const GradientDifference& difference) {
  impl_->gradient_differences.push_back(difference);
  if (impl_->metrics) impl_->metrics->gradient_difference(difference);
}

template <class T>
TrainingResult Run<T>::finish(std::span<const std::span<const T>> parameters,
                              const EvaluationSums& test, const cuda::Stream& compute) {
  impl_->log.read_all();
  impl_->save(compute);
  Checksum checksum;
  for (const std::span<const T>& values : parameters) {
    const std::vector<T> host = cuda::download(values.data(), values.size(), compute);
    checksum.add(std::as_bytes(std::span(host)));
  }
  TrainingResult result;
  result.test = impl_->mean_of_all(test);
  result.traffic = all_gather_value(impl_->ranks, impl_->ranks.traffic() - impl_->traffic_before);
  result.parameter_checksum = checksum.value();
  result.samples_per_second = impl_->log.samples_per_second();
  result.device_name = impl_->device.name;
  result.simulated = impl_->device.simulated;
  result.interrupted = impl_->interrupted;
  result.peak_device_bytes = cuda::peak_device_bytes();
  if (impl_->trace) impl_->trace->write();
  if (impl_->metrics) impl_->metrics->end(result);
  result.steps = impl_->log.steps();
  result.gradient_differences = std::move(impl_->gradient_differences);
  return result;
}

template class Run<float>;
template class Run<double>;

}  // namespace ddp
