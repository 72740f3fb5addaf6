#pragma once

#include <cstdint>
#include <exception>
#include <limits>
#include <vector>

#include "common/cuda/stream.hpp"
#include "common/io/metrics.hpp"
#include "common/io/progress.hpp"
#include "common/io/training_result.hpp"
#include "common/run/ranks.hpp"
#include "common/run/scalar_ring.hpp"

namespace ddp {

/// Reads back the scalars of each step a few steps later, so that neither host nor device waits for
/// the other; checks them; and tells metrics, progress and the result of the step.
template <class T>
class StepLog {
 public:
  using Note = typename ScalarRing<T>::Note;

  /// `metrics` is null where none are written. The three must outlive the log.
  StepLog(const Ranks& ranks, MetricsFile* metrics, Progress& progress)
      : ranks_(ranks), metrics_(metrics), progress_(progress) {}
  StepLog(const StepLog&) = delete;
  StepLog& operator=(const StepLog&) = delete;
  /// Reads what it can: an error elsewhere must not cost the lines of the steps that were good.
  ~StepLog();

  /// The time at which the first step begins.
  void start(const cuda::Stream& compute) { ring_.start(compute); }

  /// Takes note of a step that has been enqueued, and reads those that are done. Throws what
  /// check_flags() does where one of them was not good, but only `lead` steps later. When a step is
  /// read differs between ranks, and one that left at once would leave another waiting for it in
  /// the next step's messages.
  void push(const Note& note, const StepScalars<T>* scalars, const cuda::Stream& compute);

  /// Waits for all steps, and throws at once where one was not good: all ranks call it between the
  /// same two steps.
  void read_all();

  /// Whether a rank was told to stop before `step`. Ranks learn of that from the scalars of a step,
  /// not at the same time, and then stop after the same one.
  bool stops_before(std::int64_t step) const { return last_step_ < step; }

  /// Without the first step, which warms up.
  double samples_per_second() const;

  const std::vector<StepRecord>& steps() const { return steps_; }

 private:
  /// How many steps the host may be ahead of what it has read. Ranks that read in a step's scalars
  /// that the run is to stop, or has failed, stop this many steps later: by then every rank has
  /// read it.
  static constexpr std::int64_t lead = 4;

  void read(const typename ScalarRing<T>::Arrival& arrival);

  const Ranks& ranks_;
  MetricsFile* const metrics_;
  Progress& progress_;
  ScalarRing<T> ring_;
  std::vector<StepRecord> steps_;
  std::int64_t last_step_ = std::numeric_limits<std::int64_t>::max();
  std::int64_t bad_step_ = 0;
  std::exception_ptr error_;  // of the bad step; those after it are not good either
};

extern template class StepLog<float>;
extern template class StepLog<double>;

}  // namespace ddp
