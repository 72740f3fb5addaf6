#include "common/run/step_log.hpp"

#include <algorithm>
#include <exception>

#include "common/errors.hpp"
#include "common/run/check_flags.hpp"

namespace ddp {

template <class T>
StepLog<T>::~StepLog() {
  try {
    read_all();
  } catch (const std::exception&) {  // the first error is the one to tell
  }
}

template <class T>
void StepLog<T>::push(const Note& note, const StepScalars<T>* scalars,
                      const cuda::Stream& compute) {
  ring_.push(note, scalars, compute);
  while (const auto arrival = ring_.pop_if_done()) read(*arrival);
  while (ring_.waiting() > static_cast<std::size_t>(lead)) read(ring_.pop());
  if (error_ && note.step >= bad_step_ + lead) std::rethrow_exception(error_);
}

template <class T>
void StepLog<T>::read_all() {
  while (!ring_.empty()) read(ring_.pop());
  if (error_) std::rethrow_exception(error_);
}

template <class T>
void StepLog<T>::read(const typename ScalarRing<T>::Arrival& arrival) {
  if (error_) return;
  const auto& [note, scalars, seconds] = arrival;
  const double loss = static_cast<double>(scalars.loss_sum) / note.samples;
  try {
    check_flags(ranks_, note.step, scalars.flags, scalars.raised_by, loss,
                static_cast<double>(scalars.loss_scale));
  } catch (const Error&) {
    bad_step_ = note.step;
    error_ = std::current_exception();
    return;
  }
  if (scalars.stop != 0) last_step_ = std::min(last_step_, note.step + lead);
  const double rate = scalars.learning_rate > 0 ? scalars.learning_rate : note.learning_rate;
  const StepRecord record{note.step,
                          note.epoch,
                          loss,
                          rate,
                          note.samples,
                          seconds,
                          static_cast<double>(scalars.loss_scale),
                          scalars.skip != 0};
  steps_.push_back(record);
  if (metrics_ != nullptr) metrics_->step(record);
  progress_.step(record);
}

template <class T>
double StepLog<T>::samples_per_second() const {
  double samples = 0;
  double seconds = 0;
  for (std::size_t index = 1; index < steps_.size(); ++index) {
    samples += steps_[index].samples;
    seconds += steps_[index].seconds;
  }
  return seconds > 0 ? samples / seconds : 0;
}

template class StepLog<float>;
template class StepLog<double>;

}  // namespace ddp
