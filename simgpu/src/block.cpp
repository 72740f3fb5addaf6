// The threads of a block. A kernel without barriers runs as a plain loop (launch.h) in one fiber. A
// thread that meets a barrier or a warp function stops with its stack, and the scheduler lets the
// loop go on in another fiber, until all threads have stopped or returned; then the barrier opens.

#include "block.hpp"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstdlib>
#include <numeric>

#include "device.hpp"
#include "sanitizer.hpp"
#include "second_engine.hpp"
#include "settings.hpp"

constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim;
constinit thread_local dim3 gridDim;

namespace simgpu {
namespace {

thread_local Engine* engine = nullptr;

Engine& inside_kernel(const char* what) {
  if (engine == nullptr) {
    std::fprintf(stderr, "simgpu: %s was called outside a kernel\n", what);
    std::abort();
  }
  return *engine;
}

std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

uint3 index_in(dim3 shape, std::uint64_t linear) {
  return {static_cast<unsigned>(linear % shape.x),
          static_cast<unsigned>(linear / shape.x % shape.y),
          static_cast<unsigned>(linear / shape.x / shape.y)};
}

unsigned current_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}

}  // namespace

Permutation::Permutation(std::uint64_t n, std::uint64_t seed) : n_(n) {
  switch (settings().order) {
    case ThreadOrder::forward:
      break;
    case ThreadOrder::reverse:
      multiplier_ = n - 1;
      offset_ = n - 1;
      break;
    case ThreadOrder::random:
      offset_ = mix(settings().order_seed, seed, 1) % n;
      multiplier_ = mix(settings().order_seed, seed, 2) % n;
      while (std::gcd(multiplier_, n) != 1) ++multiplier_;
      break;
  }
}

bool BlockCursor::start_next_thread() { return static_cast<Engine*>(this)->start_next_thread(); }

bool Engine::start_next_thread() {
  if (next >= count) return false;
  const unsigned thread = static_cast<unsigned>(thread_order_(next++));
  started_[thread] = true;
  threadIdx = index_in(blockDim, thread);
  return true;
}

// ---- grid and block ----------------------------------------------------------------------------

void run_grid(const cudaLaunchConfig_t& config, RunThreads run, const void* closure) {
  static thread_local Engine own;
  Engine& first = own;  // as a reference, it is this thread's also in code that another one runs
  const dim3 grid = config.gridDim;
  const std::uint64_t blocks = std::uint64_t{grid.x} * grid.y * grid.z;
  const Permutation order(blocks, first.launches());
  const auto index = [&](std::uint64_t i) { return index_in(grid, order(i)); };
  first.begin_grid(config, run, closure);
  if (sanitizer::tsan && blocks > 1) {
    // Blocks take turns on two OS threads. A block follows the one before the last, whose shared
    // memory it inherits, but nothing orders neighbours: TSan sees when they touch the same memory.
    static thread_local SecondEngine own_second;
    SecondEngine& second = own_second;
    sanitizer::release(&second);
    second.call([&](Engine& engine) {
      sanitizer::acquire(&second);
      engine.begin_grid(config, run, closure);
    });
    for (std::uint64_t i = 0; i < blocks; i += 2) {
      first.run_block(index(i));
      if (i + 1 < blocks) second.call([&](Engine& engine) { engine.run_block(index(i + 1)); });
    }
    second.call([&](Engine& engine) {
      first.inherit_failure(engine);
      engine.end_grid();
      sanitizer::release(&second);
    });
    sanitizer::acquire(&second);
  } else {
    for (std::uint64_t i = 0; i < blocks && !first.failed(); ++i) first.run_block(index(i));
  }
  if (first.failed()) fail_current_device(first.error(), first.message());
  first.end_grid();
}

void Engine::begin_grid(const cudaLaunchConfig_t& config, RunThreads run, const void* closure) {
  engine = this;
  run_ = run;
  closure_ = closure;
  blockDim = config.blockDim;
  gridDim = config.gridDim;
  count = blockDim.x * blockDim.y * blockDim.z;
  thread_order_ = Permutation(count, ++launches_);
  plain = settings().order == ThreadOrder::forward && blockDim.y == 1 && blockDim.z == 1 &&
          !sanitizer::tsan;
  shared_.resize(config.dynamicSmemBytes);
  main_.tsan = TsanContexts::of_this_thread();
  if (owner_.size() < count) reserve(count);
}

/// Memory for blocks of `threads`. All at once, and not by a fiber: TSan sees who allocates.
void Engine::reserve(unsigned threads) {
  owner_.resize(threads, nullptr);
  started_.resize(threads);
  sync_tags_.resize(threads);
  fibers_.reserve(threads);
  idle_.reserve(threads);
  ready_.reserve(threads);
  at_barrier_.reserve(threads);
  if (sanitizer::tsan) {
    while (fibers_.size() < threads) add_fiber();
    for (unsigned i = 0; i < threads; ++i) tsan_contexts_[i];
  }
}

void Engine::end_grid() {
  engine = nullptr;
  failed_ = false;
}

void Engine::inherit_failure(const Engine& other) {
  if (other.failed_) fail(other.error_, other.message_);
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
  next_ready_ = 0;
  if (failed_) abandon_all();
}

/// Who runs now: a stopped thread whose wait is over, else a fiber for threads that have not started;
/// nobody if the block is done or has failed.
Fiber* Engine::next_fiber() {
  while (!failed_) {
    if (next_ready_ < ready_.size()) return ready_[next_ready_++];
    if (next < count) return &idle_fiber();
    if (!release_waiting()) return nullptr;
  }
  return nullptr;
}

/// All threads have been started and none can run. Opens what can be opened; false: all are done.
bool Engine::release_waiting() {
  ready_.clear();
  next_ready_ = 0;
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
  const Fiber& first = *at_barrier_.front();
  for (const Fiber* other : at_barrier_) {
    if (other->file == first.file && other->line == first.line) continue;
    fail(cudaErrorLaunchFailure, "divergent barrier in block " + text(blockIdx) + ": thread " +
                                     text(first.thread) + " waits at " + first.where() +
                                     ", thread " + text(other->thread) + " at " + other->where());
    return true;
  }
  ready_.swap(at_barrier_);
  ++barriers_;
  return true;
}

// ---- fibers ------------------------------------------------------------------------------------

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
  jump(from, to, [](void* self) { static_cast<Engine*>(self)->fiber_main(); }, this);
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
  at_barrier_.push_back(&fiber);
  // Two tags in turn: a thread that is already at the next barrier must not be seen at this one.
  const void* tag = &barrier_tags_[barriers_ % 2];
  sanitizer::release(tag);
  wait(fiber);
  sanitizer::acquire(tag);
}

void Engine::abandon_all() {
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

// ---- warps -------------------------------------------------------------------------------------

/// True once every lane in `mask` that has not returned is here with the same mask; then all go on.
bool Engine::complete_exchange(unsigned warp, unsigned mask) {
  std::uint64_t values[32] = {};
  std::array<const void*, 32> tags{};
  unsigned present = 0, ballot = 0;
  for (unsigned lanes = mask; lanes != 0; lanes &= lanes - 1) {
    const unsigned lane = static_cast<unsigned>(std::countr_zero(lanes));
    const unsigned thread = warp * 32 + lane;
    if (thread >= count) break;
    if (!(plain ? thread < next : started_[thread])) return false;
    const Fiber* fiber = owner_[thread];
    if (fiber == nullptr) continue;  // returned
    if (fiber->state != Fiber::State::at_warp || fiber->mask != mask) return false;
    values[lane] = fiber->value;
    tags[lane] = fiber->sync_tag;
    present |= 1u << lane;
    ballot |= (fiber->value != 0 ? 1u : 0u) << lane;
  }
  for (unsigned lanes = present; lanes != 0; lanes &= lanes - 1) {
    Fiber& fiber = *owner_[warp * 32 + static_cast<unsigned>(std::countr_zero(lanes))];
    fiber.source_present = (present >> fiber.source & 1) != 0;
    fiber.value = values[fiber.source];
    fiber.present = present;
    fiber.ballot = ballot;
    if (sanitizer::tsan) fiber.partner_tags = tags;
    fiber.state = Fiber::State::ready;
    if (&fiber != current_) ready_.push_back(&fiber);
  }
  waiting_lanes_[warp] &= ~present;
  return true;
}

Fiber& Engine::exchange(unsigned mask, std::uint64_t value, unsigned source, const char* file,
                        int line) {
  Fiber& fiber = stop(Fiber::State::at_warp, file, line);
  fiber.mask = mask;
  fiber.value = value;
  fiber.source = source & 31;
  const unsigned lane = fiber.linear % 32;
  if ((mask >> lane & 1) == 0) {
    fail(cudaErrorLaunchFailure, fiber.where() + ": " + thread_text() + " is lane " +
                                     std::to_string(lane) + ", which its own mask does not name");
    leave();
  }
  // The last of the mask to come lets all go on. Where lanes are missing, release_waiting() decides.
  unsigned& waiting = waiting_lanes_[fiber.linear / 32];
  waiting |= 1u << lane;
  if ((waiting & mask) == mask && complete_exchange(fiber.linear / 32, mask)) {
    fiber.state = Fiber::State::running;
  } else {
    wait(fiber);
  }
  return fiber;
}

void Engine::report_stuck_warp(const Fiber& waiting) {
  std::string message = "divergent warp: thread " + text(waiting.thread) + " of block " +
                        text(blockIdx) + " waits at " + waiting.where() + " for lanes";
  const unsigned first = waiting.linear / 32 * 32;
  for (unsigned lane = 0; lane < 32 && first + lane < count; ++lane) {
    const Fiber* other = owner_[first + lane];
    if ((waiting.mask >> lane & 1) == 0 || other == nullptr) continue;
    if (other->state == Fiber::State::at_warp && other->mask == waiting.mask) continue;
    message += " " + std::to_string(lane) + " (at " + other->where() + ")";
  }
  fail(cudaErrorLaunchFailure, message);
}

// ---- what kernels call ---------------------------------------------------------------------------

void sync_threads(const char* file, int line) {
  inside_kernel("__syncthreads").sync_threads(file, line);
}

void sync_warp(unsigned mask, const char* file, int line) {
  inside_kernel("__syncwarp").sync_warp(mask, file, line);
}

void Engine::sync_warp(unsigned mask, const char* file, int line) {
  Fiber& fiber = *current_;
  SyncTags& tags = sync_tags_[current_thread()];
  fiber.sync_tag = &tags.tag[tags.uses++ % 2];  // in turn, as in sync_threads
  sanitizer::release(fiber.sync_tag);
  exchange(mask, 0, 0, file, line);
  for (unsigned i = 0; i < 32; ++i) {
    if ((fiber.present >> i & 1) != 0) sanitizer::acquire(fiber.partner_tags[i]);
  }
}

std::uint64_t warp_shuffle(unsigned mask, std::uint64_t value, unsigned source, const char* file,
                           int line) {
  Engine& self = inside_kernel("a shuffle");
  const Fiber& fiber = self.exchange(mask, value, source, file, line);
  if (!fiber.source_present) {
    self.fail(cudaErrorLaunchFailure,
              fiber.where() + ": " + self.thread_text() + " reads lane " + std::to_string(source) +
                  ", which takes no part: it is not in the mask, or there is no such thread, or it "
                  "has returned");
    self.leave();
  }
  return fiber.value;
}

unsigned warp_ballot(unsigned mask, bool predicate, unsigned* present, const char* file, int line) {
  const Fiber& fiber =
      inside_kernel("a warp vote").exchange(mask, predicate ? 1 : 0, 0, file, line);
  if (present != nullptr) *present = fiber.present;
  return fiber.ballot;
}

unsigned lane() { return current_thread() % 32; }

void* dynamic_shared_memory() { return inside_kernel("dynamic shared memory").shared_memory(); }

void trap() {
  Engine& self = inside_kernel("__trap");
  self.fail(cudaErrorLaunchFailure, "__trap() in " + self.thread_text());
  self.leave();
}

/// Returns only outside a kernel.
void assertion_failed(const char* expression, const char* file, unsigned line) {
  if (engine == nullptr) return;
  engine->fail(cudaErrorAssert, std::string(file) + ":" + std::to_string(line) + ": " +
                                    engine->thread_text() + ": assertion `" + expression +
                                    "` failed");
  engine->leave();
}

}  // namespace simgpu

// assert() in a kernel ends the kernel with cudaErrorAssert, as on a GPU; elsewhere the program.
extern "C" [[noreturn]] void __assert_fail(const char* expression, const char* file, unsigned line,
                                           const char* function) noexcept {
  simgpu::assertion_failed(expression, file, line);
  std::fprintf(stderr, "%s:%u: %s: Assertion `%s' failed.\n", file, line, function, expression);
  std::abort();
}
