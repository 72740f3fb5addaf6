#include "common/run/scalar_ring.hpp"

namespace ddp {

// Step n, counted from 1, uses entry n % size; the start is step 0.

template <class T>
ScalarRing<T>::~ScalarRing() {
  if (!empty()) cudaEventSynchronize(events_[pushed_ % size]);
}

template <class T>
void ScalarRing<T>::start(cudaStream_t stream) {
  events_[0].record(stream);
}

template <class T>
void ScalarRing<T>::push(const Note& note, const StepScalars<T>* scalars, cudaStream_t stream) {
  const std::size_t entry = (pushed_ + 1) % size;
  notes_[entry] = note;
  cuda::copy_async(&host_[entry], scalars, 1, stream);
  events_[entry].record(stream);
  ++pushed_;
}

template <class T>
typename ScalarRing<T>::Arrival ScalarRing<T>::pop() {
  const std::size_t before = popped_ % size;
  const std::size_t entry = ++popped_ % size;
  events_[entry].synchronize();
  return {notes_[entry], host_[entry], cuda::seconds_between(events_[before], events_[entry])};
}

template <class T>
std::optional<typename ScalarRing<T>::Arrival> ScalarRing<T>::pop_if_done() {
  if (empty()) return std::nullopt;
  const cudaError_t status = cudaEventQuery(events_[(popped_ + 1) % size]);
  if (status == cudaErrorNotReady) return std::nullopt;
  cuda::check(status);
  return pop();
}

template class ScalarRing<float>;
template class ScalarRing<double>;

}  // namespace ddp
