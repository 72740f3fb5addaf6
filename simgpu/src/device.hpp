#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "quiet_mutex.hpp"
#include "simgpu/types.h"

namespace simgpu {

/// Bytes of shared memory of a block: without asking, and with cudaFuncSetAttribute.
constexpr std::size_t default_shared = 48 << 10, optin_shared = 227 << 10;

/// A simulated GPU: its streams, what is allocated on it, and whether it has failed for good.
struct Device {
  explicit Device(int ordinal_, int physical_) : ordinal(ordinal_), physical(physical_) {}

  const int ordinal;                             // among the visible ones
  const int physical;                            // among all
  std::atomic<cudaError_t> sticky{cudaSuccess};  // once set, every call returns it
  std::atomic<std::size_t> bytes_in_use{0};

  QuietMutex mutex;  // guards what follows, and the order between the null stream and the others
  std::vector<std::shared_ptr<CUstream_st>> streams;
  std::shared_ptr<CUstream_st> null_stream;

  /// Blocks until everything enqueued on any stream has run.
  void synchronize();
};

/// The visible devices; they live as long as the process.
const std::vector<std::unique_ptr<Device>>& devices();

/// The calling thread's device, or why there is none to be used: no device, a sticky error, or a
/// call from inside a host function, which CUDA does not permit.
struct Current {
  Device* device;
  cudaError_t error;
};
Current current();

/// Makes `error` the calling thread's last error, unless it is success, and returns it.
cudaError_t report(cudaError_t error);

/// A kernel that ran for `device` went wrong: says so and makes the error stick.
void fail_current_device(cudaError_t error, const std::string& message);
/// Which device the tasks belong to that the calling OS thread runs; null: it runs none.
void set_worker_device(Device* device);
bool is_worker();
/// Whether the calling thread is inside a function of cudaLaunchHostFunc.
void set_inside_host_function(bool inside);

/// At exit, lists memory, streams and events that were never given back.
void report_leaks_at_exit();

}  // namespace simgpu
