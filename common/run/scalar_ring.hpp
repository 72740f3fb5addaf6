#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// Carries each step's scalars from the device to the host without making either wait: a copy into
/// pinned memory and an event are enqueued behind the step, and read when they are done.
template <class T>
class ScalarRing {
 public:
  /// What is known of a step when it is enqueued.
  struct Note {
    std::int64_t step;
    int epoch;
    int samples;
    double learning_rate;
  };
  struct Arrival {
    Note note;
    StepScalars<T> scalars;
    double seconds;  ///< on the device, since the end of the step before or since start()
  };

  ScalarRing() : host_(size) {}
  ScalarRing(const ScalarRing&) = delete;
  ScalarRing& operator=(const ScalarRing&) = delete;
  /// Waits for copies under way: they write to memory that is about to be freed.
  ~ScalarRing();

  /// The time at which the first step begins.
  void start(cudaStream_t stream);

  /// Enqueues the copy of `scalars` behind the step. Call pop() first where full() says so.
  void push(const Note& note, const StepScalars<T>* scalars, cudaStream_t stream);

  /// One event stays behind the oldest step, which is timed from it.
  bool full() const { return pushed_ - popped_ == size - 1; }
  bool empty() const { return pushed_ == popped_; }
  std::size_t waiting() const { return pushed_ - popped_; }

  /// The oldest step that has not been read, waiting for it if need be; not where the ring is
  /// empty.
  Arrival pop();
  /// The same if it is there already, else nothing.
  std::optional<Arrival> pop_if_done();

 private:
  static constexpr std::size_t size = 16;  // far more than the two or three steps of a lead

  cuda::PinnedBuffer<StepScalars<T>> host_;
  std::array<Note, size> notes_{};
  std::array<cuda::Event, size> events_;
  std::size_t pushed_ = 0;
  std::size_t popped_ = 0;
};

extern template class ScalarRing<float>;
extern template class ScalarRing<double>;

}  // namespace ddp
