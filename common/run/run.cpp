#include "common/run/run.hpp"

#include <cuda_runtime.h>

#include <algorithm>
#include <cmath>
#include <exception>
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
#include "common/run/device.hpp"
#include "common/run/fault.hpp"
#include "common/run/loader.hpp"
#include "common/run/scalar_ring.hpp"
#include "common/run/signals.hpp"
#include "common/run/trace_file.hpp"

namespace ddp {
namespace {

template <class File, class... Facts>
std::optional<File> open_if_named(const std::string& path, Facts... facts) {
  if (path.empty()) return std::nullopt;
  return std::optional<File>(std::in_place, path, std::move(facts)...);
}

const std::string& checked_save_path(const Options& options) {
  if (!options.save.empty()) check_replaceable(options.save);
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

void check_flags(std::int64_t step, unsigned flags, double loss) {
  const std::string where = " in step " + std::to_string(step) + " on rank 0";
  if (flags & label_out_of_range) throw InputError("label out of range" + where);
  if (!std::isfinite(loss)) flags |= non_finite_loss;
  std::string what;
  const auto add = [&](StepFlag flag, const char* name) {
    if (flags & flag) what += (what.empty() ? "" : ", ") + std::string(name);
  };
  add(non_finite_loss, "loss");
  add(non_finite_gradient, "gradient");
  add(non_finite_update, "update (learning rate times gradient)");
  if (!what.empty()) {
    throw NonFiniteError("non-finite " + what + where +
                         "; the weights are those of the step before. A smaller --lr may help.");
  }
}

// Without the first step: it warms up.
double samples_per_second(const std::vector<StepRecord>& steps) {
  double samples = 0;
  double seconds = 0;
  for (std::size_t index = 1; index < steps.size(); ++index) {
    samples += steps[index].samples;
    seconds += steps[index].seconds;
  }
  return seconds > 0 ? samples / seconds : 0;
}

}  // namespace

template <class T>
struct Run<T>::Impl {
  // In this order, so that a mistake shows early and nothing slow comes before it.
  Impl(std::string_view stage, const Options& run_options)
      : options(run_options),
        fault(fault_from_environment(0, 1)),
        device(select_device(options.device)),
        metrics(open_if_named<MetricsFile>(options.metrics)),
        sample_dump(open_if_named<SampleDump>(options.dump_samples)),
        trace(open_if_named<TraceFile>(
            options.trace,
            TraceFile::Process{std::string(stage), 0, device.name, device.simulated})),
        save_path(checked_save_path(options)),
        data(load_data(options)),
        sampler(data.train.size(), options.global_batch, options.seed, options.shuffle),
        total_steps(options.steps.value_or(options.epochs * sampler.steps_per_epoch())),
        loader(data.train, options.loss, std::min(options.global_batch, data.train.size()), fault),
        progress(std::cerr, progress_look_of_stderr(options.quiet), total_steps,
                 sampler.steps_per_epoch()) {
    if (metrics) metrics->run(describe(stage), options);
    cuda::restart_peak_device_bytes();  // what the loader holds counts
  }

  // An error elsewhere must not cost the lines of the steps that were good.
  ~Impl() {
    try {
      if (!failed) read_all();
    } catch (const std::exception&) {  // the first error is the one to tell
    }
  }

  RunDescription describe(std::string_view stage) const {
    return {.stage = std::string(stage),
            .world_size = 1,
            .device_name = device.name,
            .simulated = device.simulated,
            .parameter_count = parameter_count(options.layers),
            .cuda_runtime_version = cuda_runtime_version(),
            .train_samples = data.train.size(),
            .test_samples = data.test.size(),
            .input_mean = data.train.input_mean(),
            .input_std = data.train.input_std()};
  }

  /// The state after the last step, once it is known to be good.
  void save(const cuda::Stream& compute) {
    if (save_path.empty() || saved_position == position) return;
    save_checkpoint<T>(save_path, options, position, state, compute);
    saved_position = position;
  }

  Step step_at(std::int64_t number) {
    return {number, sampler.epoch_of(number), sampler.batch(number)};
  }

  void read(const typename ScalarRing<T>::Arrival& arrival) {
    const auto& [note, scalars, seconds] = arrival;
    const double loss = static_cast<double>(scalars.loss_sum) / note.samples;
    failed = true;  // unless the check comes back
    check_flags(note.step, scalars.flags, loss);
    failed = false;
    const StepRecord record{note.step, note.epoch, loss, note.learning_rate, note.samples, seconds};
    steps.push_back(record);
    if (metrics) metrics->step(record);
    progress.step(record);
  }
  void read_done() {
    while (const auto arrival = ring.pop_if_done()) read(*arrival);
  }
  void read_all() {
    while (!ring.empty()) read(ring.pop());
  }

  const Options options;
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
  ScalarRing<T> ring;
  Progress progress;
  std::vector<StepRecord> steps;
  std::vector<NamedBuffer<T>> state;  // what a checkpoint keeps
  std::int64_t position = 0;          // the last step that was begun, or was resumed from
  std::int64_t saved_position = -1;
  Step current{};
  std::optional<cuda::Range> step_range;  // from one advance() to the next
  bool started = false;
  bool interrupted = false;
  bool failed = false;  // a step was not good, nor are those after it
  StopSignals stop_signals;
};

template <class T>
Run<T>::Run(std::string_view stage, const Options& options)
    : impl_(std::make_unique<Impl>(stage, options)) {}

template <class T>
Run<T>::~Run() = default;

template <class T>
const Options& Run<T>::options() const {
  return impl_->options;
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
void Run<T>::track(std::vector<NamedBuffer<T>> state, const cuda::Stream& compute) {
  impl_->state = std::move(state);
  const std::string& path = impl_->options.resume;
  if (path.empty()) return;
  const std::int64_t step = load_checkpoint<T>(path, impl_->options, impl_->state, compute);
  if (step > impl_->total_steps) {
    throw OptionError("the run ends after step " + std::to_string(impl_->total_steps) +
                      " by --steps or --epochs, but --resume " + path + " is at step " +
                      std::to_string(step));
  }
  impl_->position = step;
}

template <class T>
void Run<T>::advance() {
  const std::int64_t next = impl_->position + 1;
  impl_->step_range.reset();
  impl_->interrupted = next <= impl_->total_steps && impl_->stop_signals.received();
  if (next > impl_->total_steps || impl_->interrupted) {
    impl_->current = {};
  } else {
    impl_->current = impl_->step_at(next);
    impl_->position = next;
    impl_->step_range.emplace("step", next);
  }
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
Batch<T> Run<T>::load(const Step& step, const cuda::Stream& compute) {
  if (!std::exchange(impl_->started, true)) {
    cuda::name_stream(compute, "compute");
    impl_->ring.start(compute);
  }
  if (impl_->sample_dump) impl_->sample_dump->step(step.number, 0, step.samples);
  std::optional<Step> next;
  if (step.number < impl_->total_steps) next = impl_->step_at(step.number + 1);
  return impl_->loader.load(step, next, compute);
}

template <class T>
void Run<T>::record(const Step& step, const StepScalars<T>* scalars, double learning_rate,
                    const cuda::Stream& compute) {
  trigger(impl_->fault, step.number);
  const cuda::Range range("record");
  if (impl_->ring.full()) impl_->read(impl_->ring.pop());
  impl_->ring.push({step.number, step.epoch, static_cast<int>(step.samples.size()), learning_rate},
                   scalars, compute);
  impl_->read_done();
  if (impl_->options.save_every > 0 && step.number % impl_->options.save_every == 0) {
    impl_->read_all();  // throws rather than to save what is not good
    impl_->save(compute);
  }
}

template <class T>
TrainingResult Run<T>::finish(std::span<const std::span<const T>> parameters,
                              const Evaluation& test, const cuda::Stream& compute) {
  impl_->read_all();
  impl_->save(compute);
  Checksum checksum;
  for (const std::span<const T>& values : parameters) {
    const std::vector<T> host = cuda::download(values.data(), values.size(), compute);
    checksum.add(std::as_bytes(std::span(host)));
  }
  TrainingResult result;
  result.test = test;
  result.parameter_checksum = checksum.value();
  result.samples_per_second = samples_per_second(impl_->steps);
  result.device_name = impl_->device.name;
  result.simulated = impl_->device.simulated;
  result.interrupted = impl_->interrupted;
  result.peak_device_bytes = cuda::peak_device_bytes();
  if (impl_->trace) impl_->trace->write();
  if (impl_->metrics) impl_->metrics->end(result);
  result.steps = std::move(impl_->steps);
  return result;
}

template class Run<float>;
template class Run<double>;

}  // namespace ddp
