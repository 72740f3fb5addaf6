#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "simgpu/types.h"

namespace simgpu {

/// A stack on which threads of a block run, and where the thread on it has stopped.
struct Fiber {
  enum class State { finished, running, ready, at_barrier, at_warp, abandoned };

  Fiber() : number(0) {}  ///< stands for the OS thread itself
  explicit Fiber(std::size_t number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  std::string where() const { return std::string(file) + ":" + std::to_string(line); }

  State state = State::finished;
  unsigned linear = ~0u;  // the thread that has stopped on it
  uint3 thread{};
  const char* file = "";
  int line = 0;

  // of a warp function
  unsigned mask = 0, source = 0, present = 0, ballot = 0;
  std::uint64_t value = 0;
  bool source_present = false;
  const void* sync_tag = nullptr;              // TSan: what this thread did before __syncwarp ...
  std::array<const void*, 32> partner_tags{};  // ... and what the others did

  bool owns_stack = false;
  void* context = nullptr;  // where it stopped; null: starts anew
  char* stack = nullptr;    // lowest address
  std::size_t stack_bytes = 0;
  std::size_t number;
  void* asan_fake_stack = nullptr;
  void* tsan = nullptr;        // TSan's notion of the thread on it
  Fiber* following = nullptr;  // in the queue in which it stands
};

/// Fibers in a row. A fiber stands in one queue at a time, so a queue needs no memory.
class FiberQueue {
 public:
  bool empty() const { return first_ == nullptr; }
  Fiber* first() const { return first_; }
  void push(Fiber& fiber) {
    fiber.following = nullptr;
    (empty() ? first_ : last_->following) = &fiber;
    last_ = &fiber;
  }
  /// The first one, which leaves; only if there is one.
  Fiber* pop() { return std::exchange(first_, first_->following); }
  void clear() { first_ = nullptr; }

 private:
  Fiber* first_ = nullptr;
  Fiber* last_ = nullptr;
};

/// Stops on `from` and goes on on `to`; returns when somebody jumps to `from`. A fiber without a
/// context starts `main(argument)`, which never returns. Tells the sanitizers.
void jump(Fiber& from, Fiber& to, void (*main)(void*), void* argument);

/// Goes on on the same fiber as the thread that its `tsan` stands for.
void enter_tsan_context(const Fiber& fiber);

/// TSan's contexts: what it takes for threads. All null without TSan.
class TsanContexts {
 public:
  TsanContexts() = default;
  ~TsanContexts();
  TsanContexts(const TsanContexts&) = delete;
  TsanContexts& operator=(const TsanContexts&) = delete;
  void* operator[](std::size_t index);
  static void* of_this_thread();

 private:
  std::vector<void*> contexts_;
};

/// The dynamic shared memory of a block, of exactly the size asked for, so that ASan sees its end.
class DynamicShared {
 public:
  DynamicShared() = default;
  ~DynamicShared();
  DynamicShared(const DynamicShared&) = delete;
  DynamicShared& operator=(const DynamicShared&) = delete;
  void resize(std::size_t bytes);
  void fill();  ///< with NaN bytes: a GPU's shared memory starts with anything
  void* data() { return data_; }

 private:
  void* data_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace simgpu
