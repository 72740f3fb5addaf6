// What kernels call, handed to the engine that runs them.

#include <cstdio>
#include <cstdlib>

#include "engine.hpp"

namespace simgpu {
namespace {

Engine& inside_kernel(const char* what) {
  if (engine == nullptr) {
    std::fprintf(stderr, "simgpu: %s was called outside a kernel\n", what);
    std::abort();
  }
  return *engine;
}

}  // namespace

void sync_threads(const char* file, int line) {
  inside_kernel("__syncthreads").sync_threads(file, line);
}

void sync_warp(unsigned mask, const char* file, int line) {
  inside_kernel("__syncwarp").sync_warp(mask, file, line);
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
