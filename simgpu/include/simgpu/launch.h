#pragma once
// What happens at a launch, the part that a compiler must see to inline a kernel into the loop over
// the threads of a block. The other part, barriers and fibers, is src/block.cpp.

#include <memory>
#include <tuple>
#include <utility>

#include "simgpu/runtime_api.h"

// CUDA's built-in variables. A grid runs on one OS thread: its stream's, or one that waits for it.
extern constinit thread_local uint3 threadIdx;
extern constinit thread_local uint3 blockIdx;
extern constinit thread_local dim3 blockDim;
extern constinit thread_local dim3 gridDim;
constexpr int warpSize = 32;

namespace simgpu {

/// One operation in a stream's queue. Tasks link themselves, so a queue allocates nothing.
struct Task {
  Task* next = nullptr;
  bool waits_for_others = false;  ///< may block until somebody else acts (host function, event)
  bool runs_always = false;  ///< even after the device has failed, for somebody may wait for it
  Task() = default;
  Task(const Task&) = delete;
  Task& operator=(const Task&) = delete;
  virtual ~Task() = default;
  virtual void run() = 0;
};

/// The threads of the block that runs now. The loop below takes them one after another; when one
/// blocks at a barrier, the engine lets the same loop go on in another fiber with the next one.
struct BlockCursor {
  // Of a type that kernels hardly ever write, so that the loop need not read them each time.
  unsigned long long next = 0;   ///< how many threads have been started
  unsigned long long count = 0;  ///< how many the block has
  bool plain = false;            ///< one dimension, ascending order: threadIdx.x is `next`
  /// Sets threadIdx for the next thread; false if there is none.
  bool start_next_thread();
};

#if defined(__SANITIZE_THREAD__)
constexpr bool one_thread_a_fiber = true;  // so that TSan takes the threads of a block for threads
#else
constexpr bool one_thread_a_fiber = false;
#endif

template <class Call>
void run_threads(const void* closure, BlockCursor& cursor) {
  const Call call = *static_cast<const Call*>(closure);  // a copy whose address nobody else knows
  if constexpr (one_thread_a_fiber) {
    if (cursor.start_next_thread()) call();
  } else if (cursor.plain) {
    // Most threads never stop, and counting them in memory would cost as much as what they do. So
    // `next` stays, unless one stops: then the engine says how far we were, and others have gone
    // on.
    while (cursor.next < cursor.count) {
      const auto first = cursor.next;
      for (auto thread = first; thread < cursor.count && cursor.next == first; ++thread) {
        threadIdx.x = static_cast<unsigned>(thread);
        call();
      }
      if (cursor.next == first) cursor.next = cursor.count;
    }
  } else {
    while (cursor.start_next_thread()) call();
  }
}

using RunThreads = void (*)(const void* closure, BlockCursor& cursor);

/// Runs every block of a grid on the calling thread.
void run_grid(const cudaLaunchConfig_t& config, RunThreads run, const void* closure);

/// The checks that CUDA makes at the call: configuration, limits, the stream's device.
cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel);
cudaError_t enqueue(cudaStream_t stream, std::unique_ptr<Task> task);

template <class Call>
struct KernelTask final : Task {
  KernelTask(const cudaLaunchConfig_t& config_, Call call_) : config(config_), call(call_) {}
  void run() override { run_grid(config, &run_threads<Call>, &call); }
  cudaLaunchConfig_t config;
  Call call;
};

/// `args` become the kernel's parameter types here and are copied: the caller may change them
/// after.
template <class... Params, class Function, class... Args>
cudaError_t launch(const cudaLaunchConfig_t* config, void (*kernel)(Params...), Function function,
                   Args&&... args) {
  static_assert(sizeof...(Params) == sizeof...(Args),
                "the kernel takes another number of arguments");
  const cudaError_t status = check_launch(*config, reinterpret_cast<const void*>(kernel));
  if (status != cudaSuccess) return status;
  auto call = [function, parameters = std::tuple<Params...>(std::forward<Args>(args)...)] {
    std::apply(function, parameters);
  };
  return enqueue(config->stream, std::make_unique<KernelTask<decltype(call)>>(*config, call));
}

}  // namespace simgpu

// A macro, so that a kernel which is a constant stays one: the lambda captures nothing then, and
// the call is inlined. A pointer that is only known at run time is captured and called through.
#define cudaLaunchKernelEx(config, kernel, ...)                    \
  ::simgpu::launch(config, kernel, [=](auto... kernel_arguments) { \
    kernel(kernel_arguments...);                                   \
  } __VA_OPT__(, ) __VA_ARGS__)
