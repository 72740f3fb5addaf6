// The checks of a launch that CUDA makes at the call.

#include <map>

#include "device.hpp"
#include "quiet_mutex.hpp"
#include "sanitizer.hpp"
#include "simgpu/launch.h"
#include "statistics.hpp"
#include "stream.hpp"

namespace simgpu {
namespace {

struct SharedLimits {
  QuietMutex mutex;
  std::map<const void*, std::size_t> bytes;  // of kernels that were raised
};

SharedLimits& shared_limits() {
  static SharedLimits& made = *new SharedLimits;
  return made;
}

std::size_t shared_limit(const void* kernel) {
  QuietLock lock(shared_limits().mutex);
  const auto found = shared_limits().bytes.find(kernel);
  return found == shared_limits().bytes.end() ? default_shared : found->second;
}

bool valid(dim3 grid, dim3 block) {
  if (grid.x == 0 || grid.y == 0 || grid.z == 0) return false;
  if (block.x == 0 || block.y == 0 || block.z == 0) return false;
  if (grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535) return false;
  if (block.x > 1024 || block.y > 1024 || block.z > 64) return false;
  return std::size_t{block.x} * block.y * block.z <= 1024;
}

}  // namespace

cudaError_t set_max_dynamic_shared(const void* kernel, int bytes) {
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (bytes < 0 || bytes > static_cast<int>(optin_shared)) return report(cudaErrorInvalidValue);
  QuietLock lock(shared_limits().mutex);
  shared_limits().bytes[kernel] = static_cast<std::size_t>(bytes);
  return cudaSuccess;
}

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  if (config.stream != nullptr && &config.stream->device != device) {
    return report(cudaErrorInvalidResourceHandle);
  }
  if (kernel == nullptr) return report(cudaErrorInvalidDeviceFunction);
  if (!valid(config.gridDim, config.blockDim)) return report(cudaErrorInvalidConfiguration);
  if (config.dynamicSmemBytes > default_shared && config.dynamicSmemBytes > shared_limit(kernel)) {
    return report(cudaErrorInvalidValue);
  }
  count_launch(kernel, device->ordinal);
  return cudaSuccess;
}

}  // namespace simgpu
