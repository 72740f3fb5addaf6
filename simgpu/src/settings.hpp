#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

namespace simgpu {

enum class Schedule { async, eager, delays };
enum class ThreadOrder { forward, reverse, random };
enum class Nccl { silent, diagnose };

/// Which generation a GPU is of; from 8.0 on it has bfloat16.
struct ComputeCapability {
  int major, minor;
};

/// Bandwidth and latency of a network link.
struct LinkSpeed {
  double bytes_per_second;
  double latency_seconds;
};

/// What the environment says, read once. A value that makes no sense ends the program with
/// status 2.
struct Settings {
  /// SIMGPU_SCHEDULE=async|eager|delays:SEED
  Schedule schedule = Schedule::async;
  std::uint64_t delay_seed = 0;
  /// SIMGPU_THREAD_ORDER=forward|reverse|random:SEED, for the threads of a block and the blocks of
  /// a grid
  ThreadOrder order = ThreadOrder::forward;
  std::uint64_t order_seed = 0;
  /// SIMGPU_DEVICES=N (8), and of these CUDA_VISIBLE_DEVICES=i,j,...: the visible ones, in order
  std::vector<int> devices;
  /// SIMGPU_MEMORY_MB=N (8192) for each device
  std::size_t device_memory = 0;
  /// SIMGPU_COMPUTE_CAPABILITY=MAJOR.MINOR (9.0, for which the cuda preset compiles)
  ComputeCapability compute_capability = {9, 0};
  /// SIMGPU_LEAKS=0 keeps quiet about memory that is left at exit
  bool report_leaks = true;
  /// SIMGPU_NCCL=silent|diagnose: whether NCCL explains calls that do not match and dead peers
  Nccl nccl = Nccl::silent;
};

const Settings& settings();

/// SIMGPU_LINK=GB/s,us: the link of each rank, see nccl_link.hpp; nothing: no limits. Read when the
/// first communicator is made, for programs that communicate otherwise read the variable
/// themselves.
const std::optional<LinkSpeed>& link_setting();

/// A well-mixed 64-bit number for each (seed, a, b): delays and orders that repeat.
constexpr std::uint64_t mix(std::uint64_t seed, std::uint64_t a, std::uint64_t b = 0) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15u + a * 0xbf58476d1ce4e5b9u + b * 0x94d049bb133111ebu;
  for (int round = 0; round < 2; ++round) {
    x = (x ^ (x >> 31)) * 0xd6e8feb86659fd93u;
    x ^= x >> 29;
  }
  return x;
}

}  // namespace simgpu
