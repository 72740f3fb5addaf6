#include "fiber.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "quiet_mutex.hpp"
#include "sanitizer.hpp"

namespace simgpu {
namespace {

namespace context = boost::context::detail;

#if defined(SIMGPU_ASAN) || defined(SIMGPU_TSAN)
constexpr std::size_t usual_stack_bytes = 256 << 10;  // red zones make frames larger
#else
constexpr std::size_t usual_stack_bytes = 64 << 10;
#endif
constexpr std::size_t guard_bytes = 4096;

char* map_stack() {
  void* memory = mmap(nullptr, guard_bytes + usual_stack_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("simgpu: no memory for the stack of a thread");
    std::abort();
  }
  mprotect(memory, guard_bytes, PROT_NONE);  // an overflow ends here, not in the next stack
  return static_cast<char*>(memory) + guard_bytes;
}

// Stacks that no fiber has, for the next one: mapping hundreds for each stream takes milliseconds.
// A list; the highest bytes of each, in a page that is in use anyway, point to the next.
constinit QuietMutex free_stacks_mutex;
constinit char* free_stacks = nullptr;

char*& next_after(char* stack) {
  return *reinterpret_cast<char**>(stack + usual_stack_bytes - sizeof(char*));
}

char* get_stack() {
  {
    const QuietLock lock(free_stacks_mutex);
    if (free_stacks != nullptr) return std::exchange(free_stacks, next_after(free_stacks));
  }
  char* stack = map_stack();
#if defined(SIMGPU_TSAN)
  // What the next thread on it writes is no race with the one before. TSan keeps that promise for
  // an address for good, so a stack stays a stack.
  AnnotateBenignRaceSized(__FILE__, __LINE__, stack, usual_stack_bytes, "a stack");
#endif
  return stack;
}

void give_back(char* stack) {
#if defined(SIMGPU_ASAN)
  __asan_unpoison_memory_region(stack, usual_stack_bytes);  // a thread may have ended anywhere
#endif
  const QuietLock lock(free_stacks_mutex);
  next_after(stack) = std::exchange(free_stacks, stack);
}

}  // namespace

Fiber::Fiber(std::size_t number_) : number(number_) {
  stack = get_stack();
  stack_bytes = usual_stack_bytes;
  owns_stack = true;
}

Fiber::~Fiber() {
  if (owns_stack) give_back(stack);
}

namespace {

struct Jump {
  Fiber* from;
  Fiber* to;
  void (*main)(void*);
  void* argument;
};

/// On arrival at jump.to: notes where the other one stopped.
void arrive(const Jump& jump, context::fcontext_t stopped_at) {
  jump.from->context = stopped_at;
#if defined(SIMGPU_ASAN)
  const void* bottom = nullptr;
  __sanitizer_finish_switch_fiber(jump.to->asan_fake_stack, &bottom, &jump.from->stack_bytes);
  jump.from->stack = static_cast<char*>(const_cast<void*>(bottom));
  jump.to->asan_fake_stack = nullptr;
#endif
}

void start(context::transfer_t transfer) {
  const Jump jump = *static_cast<Jump*>(transfer.data);
  arrive(jump, transfer.fctx);
  jump.main(jump.argument);
  std::abort();  // main does not return
}

}  // namespace

void jump(Fiber& from, Fiber& to, void (*main)(void*), void* argument) {
  if (to.context == nullptr) {
#if defined(SIMGPU_ASAN)
    __asan_unpoison_memory_region(to.stack, to.stack_bytes);  // of a thread that was abandoned
#endif
    // Stacks whose tops share a set of the cache would push each other out: shift each by some
    // lines.
    char* top = to.stack + usual_stack_bytes - to.number % 61 * 64;
    to.context = context::make_fcontext(top, static_cast<std::size_t>(top - to.stack), &start);
  }
#if defined(SIMGPU_ASAN)
  void** keep = from.state == Fiber::State::abandoned ? nullptr : &from.asan_fake_stack;
  __sanitizer_start_switch_fiber(keep, to.stack, to.stack_bytes);
#endif
#if defined(SIMGPU_TSAN)
  __tsan_switch_to_fiber(to.tsan, __tsan_switch_to_fiber_no_sync);  // a switch orders no memory
#endif
  Jump leaving{&from, &to, main, argument};
  const context::transfer_t arrival = context::jump_fcontext(to.context, &leaving);
  arrive(*static_cast<Jump*>(arrival.data), arrival.fctx);
}

void enter_tsan_context([[maybe_unused]] const Fiber& fiber) {
#if defined(SIMGPU_TSAN)
  if (__tsan_get_current_fiber() != fiber.tsan) {
    __tsan_switch_to_fiber(fiber.tsan, __tsan_switch_to_fiber_no_sync);
  }
#endif
}

#if defined(SIMGPU_TSAN)
namespace {

// Contexts that no engine has: TSan takes a tenth of a millisecond to make one. Whoever gets one is
// taken to follow what its last owner did, a stream that was destroyed and therefore waited for. An
// array, since TSan sees what a vector allocates and copies, and does not see our mutex.
struct SpareContexts {
  QuietMutex mutex;
  std::array<void*, 4096> contexts;
  std::size_t count = 0;

  void* take() {
    QuietLock lock(mutex);
    return count > 0 ? contexts[--count] : __tsan_create_fiber(0);
  }
  void give(void* context) {
    QuietLock lock(mutex);
    if (count == contexts.size()) return __tsan_destroy_fiber(context);
    contexts[count++] = context;
  }
};
constinit SpareContexts spare_contexts{};

}  // namespace
#endif

TsanContexts::~TsanContexts() {
#if defined(SIMGPU_TSAN)
  for (void* made : contexts_) spare_contexts.give(made);
#endif
}

void* TsanContexts::operator[]([[maybe_unused]] std::size_t index) {
#if defined(SIMGPU_TSAN)
  while (contexts_.size() <= index) contexts_.push_back(spare_contexts.take());
  return contexts_[index];
#else
  return nullptr;
#endif
}

void* TsanContexts::of_this_thread() {
#if defined(SIMGPU_TSAN)
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

DynamicShared::~DynamicShared() { std::free(data_); }

void DynamicShared::resize(std::size_t bytes) {
  if (bytes == bytes_) return;
  std::free(std::exchange(data_, nullptr));
  bytes_ = bytes;
  if (bytes > 0 && posix_memalign(&data_, 64, bytes) != 0) {
    std::perror("simgpu: no memory for shared memory");
    std::abort();
  }
}

void DynamicShared::fill() {
  if (bytes_ > 0) std::memset(data_, 0xff, bytes_);
}

}  // namespace simgpu
