// A grid: its blocks one after another, in the order that was asked for.

#include <algorithm>
#include <numeric>

#include "device.hpp"
#include "engine.hpp"
#include "sanitizer.hpp"
#include "second_engine.hpp"
#include "settings.hpp"

constinit thread_local uint3 threadIdx{0, 0, 0};
constinit thread_local uint3 blockIdx{0, 0, 0};
constinit thread_local dim3 blockDim;
constinit thread_local dim3 gridDim;

namespace simgpu {

constinit thread_local Engine* engine = nullptr;

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
    second.call([&](Engine& other) {
      sanitizer::acquire(&second);
      other.begin_grid(config, run, closure);
    });
    for (std::uint64_t i = 0; i < blocks; i += 2) {
      first.run_block(index(i));
      if (i + 1 < blocks) second.call([&](Engine& other) { other.run_block(index(i + 1)); });
    }
    second.call([&](Engine& other) {
      first.inherit_failure(other);
      other.end_grid();
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
  if (owner_.size() < count) reserve(static_cast<unsigned>(count));
}

/// Memory for blocks of `threads`. All at once, and not by a fiber: TSan sees who allocates.
void Engine::reserve(unsigned threads) {
  owner_.resize(threads, nullptr);
  started_.resize(threads);
  sync_tags_.resize(threads);
  fibers_.reserve(threads);
  idle_.reserve(threads);
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

}  // namespace simgpu
