// The threads of a block. A kernel without barriers runs as a plain loop (launch.h) in one fiber. A
// thread that meets a barrier or a warp function stops with its stack, and the loop goes on in
// another fiber, until all threads have stopped or returned; then the barrier opens.

#include <algorithm>
#include <bit>
#include <cstdlib>

#include "engine.hpp"
#include "sanitizer.hpp"

namespace simgpu {

bool BlockCursor::start_next_thread() { return static_cast<Engine*>(this)->start_next_thread(); }

bool Engine::start_next_thread() {
  if (next >= count) return false;
  const unsigned thread = static_cast<unsigned>(thread_order_(next++));
  started_[thread] = true;
  threadIdx = index_in(blockDim, thread);
  return true;
}

void Engine::run_block(uint3 index) {
  if (failed_) return;
  blockIdx = index;
  threadIdx = {0, 0, 0};
  next = 0;
  if (!plain) std::fill(started_.begin(), started_.end(), false);
  shared_.fill();
  sanitizer::release(&start_tag_);
  if (Fiber* first = next_fiber()) go_to(main_, *first);
  sanitizer::acquire(&end_tag_);
  ready_.clear();
  if (failed_) abandon_all();
}

/// Who runs now: a stopped thread whose wait is over, else a fiber for threads that have not
/// started; nobody if the block is done or has failed.
Fiber* Engine::next_fiber() {
  while (!failed_) {
    if (!ready_.empty()) return ready_.pop();
    if (next < count) return &idle_fiber();
    if (!release_waiting()) return nullptr;
  }
  return nullptr;
}

/// All threads have been started and none can run. Opens what can be opened; false: all are done.
bool Engine::release_waiting() {
  current_ = nullptr;
  for (unsigned warp = 0; warp * 32 < count; ++warp) {  // lanes that returned may complete a warp
    for (unsigned lanes = waiting_lanes_[warp]; lanes != 0; lanes &= waiting_lanes_[warp]) {
      const Fiber& fiber = *owner_[warp * 32 + static_cast<unsigned>(std::countr_zero(lanes))];
      if (!complete_exchange(warp, fiber.mask)) lanes &= lanes - 1;
    }
  }
  if (!ready_.empty()) return true;
  for (unsigned warp = 0; warp * 32 < count; ++warp) {
    if (waiting_lanes_[warp] == 0) continue;
    report_stuck_warp(
        *owner_[warp * 32 + static_cast<unsigned>(std::countr_zero(waiting_lanes_[warp]))]);
    return true;  // next_fiber() sees failed_
  }
  if (at_barrier_.empty()) return false;
  const Fiber& first = *at_barrier_.first();
  for (const Fiber* other = &first; other != nullptr; other = other->following) {
    if (other->file == first.file && other->line == first.line) continue;
    fail(cudaErrorLaunchFailure, "divergent barrier in block " + text(blockIdx) + ": thread " +
                                     text(first.thread) + " waits at " + first.where() +
                                     ", thread " + text(other->thread) + " at " + other->where());
    return true;
  }
  ready_ = std::exchange(at_barrier_, {});
  ++barriers_;
  return true;
}

void Engine::add_fiber() {
  fibers_.push_back(std::make_unique<Fiber>(fibers_.size()));
  idle_.push_back(fibers_.back().get());
}

Fiber& Engine::idle_fiber() {
  if (idle_.empty()) add_fiber();
  Fiber* fiber = idle_.back();
  idle_.pop_back();
  fiber->linear = none;
  fiber->state = Fiber::State::running;
  fiber->tsan = tsan_contexts_[next];  // one for each thread of the block
  return *fiber;
}

/// From a fiber that has stopped, finished or failed to another one, perhaps to itself.
void Engine::go_to(Fiber& from, Fiber& to) {
  current_ = &to;
  if (to.linear != none) threadIdx = to.thread;
  if (&from == &to) return enter_tsan_context(to);  // perhaps for another thread than before
  jump(
      from, to, [](void* self) { static_cast<Engine*>(self)->fiber_main(); }, this);
}

void Engine::fiber_main() {
  for (;;) {  // a fiber that has finished waits here to be used again
    sanitizer::acquire(&start_tag_);
    run_(closure_, *this);
    sanitizer::release(&end_tag_);
    Fiber& self = *current_;
    if (self.linear != none) owner_[self.linear] = nullptr;
    self.state = Fiber::State::finished;
    idle_.push_back(&self);
    Fiber* following = next_fiber();
    go_to(self, following != nullptr ? *following : main_);
  }
}

/// Lets others run until this fiber's wait is over.
void Engine::wait(Fiber& self) {
  Fiber* following = next_fiber();
  go_to(self, following != nullptr ? *following : main_);
  self.state = Fiber::State::running;
}

/// The running fiber stops as the thread that it runs now.
Fiber& Engine::stop(Fiber::State state, const char* file, int line) {
  Fiber& fiber = *current_;
  const unsigned thread = current_thread();
  if (plain && next <= thread) next = thread + 1;  // the loop in run_threads() does not say it
  if (fiber.linear != thread) {
    if (fiber.linear != none) owner_[fiber.linear] = nullptr;  // that one has returned since
    owner_[thread] = &fiber;
    fiber.linear = thread;
    fiber.thread = threadIdx;
  }
  fiber.state = state;
  fiber.file = file;
  fiber.line = line;
  return fiber;
}

void Engine::sync_threads(const char* file, int line) {
  Fiber& fiber = stop(Fiber::State::at_barrier, file, line);
  at_barrier_.push(fiber);
  // Two tags in turn: a thread that is already at the next barrier must not be seen at this one.
  const void* tag = &barrier_tags_[barriers_ % 2];
  sanitizer::release(tag);
  wait(fiber);
  sanitizer::acquire(tag);
}

void Engine::abandon_all() {
  // For TSan each of them ends here: what it did comes before what the stream does next.
  for (auto& fiber : fibers_) {
    if (fiber->state == Fiber::State::finished) continue;
    enter_tsan_context(*fiber);
    sanitizer::release(&end_tag_);
  }
  enter_tsan_context(main_);
  sanitizer::acquire(&end_tag_);
  // Their stacks are dropped, not unwound: a kernel's frames own nothing.
  for (auto& fiber : fibers_) {
    if (fiber->state != Fiber::State::finished) fiber->context = nullptr;
    fiber->state = Fiber::State::finished;
  }
  idle_.clear();
  for (auto& fiber : fibers_) idle_.push_back(fiber.get());
  std::fill(owner_.begin(), owner_.end(), nullptr);
  at_barrier_.clear();
  waiting_lanes_.fill(0);
}

void Engine::fail(cudaError_t error, std::string message) {
  if (failed_) return;
  failed_ = true;
  error_ = error;
  message_ = std::move(message);
}

void Engine::leave() {
  current_->state = Fiber::State::abandoned;
  go_to(*current_, main_);
  std::abort();  // nobody resumes an abandoned fiber
}

std::string Engine::thread_text() const {
  return "thread " + text(threadIdx) + " of block " + text(blockIdx);
}

}  // namespace simgpu
