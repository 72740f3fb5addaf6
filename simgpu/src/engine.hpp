#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fiber.hpp"
#include "simgpu/launch.h"

namespace simgpu {

/// An order of 0..n-1 as SIMGPU_THREAD_ORDER wants it, without a table: i -> (a * i + b) mod n.
class Permutation {
 public:
  Permutation() = default;
  Permutation(std::uint64_t n, std::uint64_t seed);
  std::uint64_t operator()(std::uint64_t i) const {
    if (multiplier_ == 1 && offset_ == 0) return i;
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(multiplier_) * i + offset_) %
                                      n_);
  }

 private:
  std::uint64_t n_ = 1, multiplier_ = 1, offset_ = 0;
};

/// The engine that runs a kernel on the calling OS thread; null outside kernels.
class Engine;
extern constinit thread_local Engine* engine;

inline uint3 index_in(dim3 shape, std::uint64_t linear) {
  return {static_cast<unsigned>(linear % shape.x),
          static_cast<unsigned>(linear / shape.x % shape.y),
          static_cast<unsigned>(linear / shape.x / shape.y)};
}
/// The running thread's number in its block.
inline unsigned current_thread() {
  return threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
}
inline std::string text(uint3 v) {
  return "(" + std::to_string(v.x) + "," + std::to_string(v.y) + "," + std::to_string(v.z) + ")";
}

/// Runs grids on one OS thread: the scheduler of the fibers of a block.
class Engine : public BlockCursor {
 public:
  void begin_grid(const cudaLaunchConfig_t& config, RunThreads run, const void* closure);
  void run_block(uint3 index);  ///< does nothing once a block has failed
  void end_grid();

  std::uint64_t launches() const { return launches_; }
  bool failed() const { return failed_; }
  cudaError_t error() const { return error_; }
  const std::string& message() const { return message_; }
  void inherit_failure(const Engine& other);

  bool start_next_thread();
  void sync_threads(const char* file, int line);
  void sync_warp(unsigned mask, const char* file, int line);
  /// Waits for the lanes of `mask`; then the fiber holds the value of `source` and the votes.
  Fiber& exchange(unsigned mask, std::uint64_t value, unsigned source, const char* file, int line);
  void* shared_memory() { return shared_.data(); }

  /// Notes the error that ends the grid.
  void fail(cudaError_t error, std::string message);
  /// Leaves the running thread for good, after fail(). Apart from it, so that no string is lost on
  /// the stack that is dropped.
  [[noreturn]] void leave();
  std::string thread_text() const;

 private:
  static constexpr unsigned none = ~0u;

  void reserve(unsigned threads);
  void add_fiber();
  bool release_waiting();
  Fiber& idle_fiber();
  Fiber* next_fiber();
  void go_to(Fiber& from, Fiber& to);
  void wait(Fiber& self);
  void fiber_main();
  Fiber& stop(Fiber::State state, const char* file, int line);
  bool complete_exchange(unsigned warp, unsigned mask);
  void report_stuck_warp(const Fiber& waiting);
  void abandon_all();

  RunThreads run_ = nullptr;
  const void* closure_ = nullptr;
  Permutation thread_order_;
  std::uint64_t launches_ = 0;
  DynamicShared shared_;

  TsanContexts tsan_contexts_;
  Fiber main_;  // the OS thread, on which a grid begins and ends
  std::vector<std::unique_ptr<Fiber>> fibers_;
  std::vector<Fiber*> idle_;
  FiberQueue ready_;  // to be resumed
  FiberQueue at_barrier_;
  std::array<unsigned, 32> waiting_lanes_{};  // by warp: the lanes that wait in a warp function
  Fiber* current_ = nullptr;
  std::vector<Fiber*> owner_;  // by thread: the fiber in which it has stopped; null: returned
  std::vector<bool> started_;  // by thread, unless `plain`

  bool failed_ = false;
  cudaError_t error_ = cudaSuccess;
  std::string message_;

  // Addresses that stand for orders of memory; see sanitizer.hpp.
  char start_tag_ = 0, end_tag_ = 0;
  std::uint64_t barriers_ = 0;
  char barrier_tags_[2] = {};
  struct SyncTags {
    char tag[2];
    unsigned uses;
  };
  std::vector<SyncTags> sync_tags_;  // by thread, for __syncwarp
};

}  // namespace simgpu
