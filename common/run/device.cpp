#include "common/run/device.hpp"

#include <cuda_runtime.h>

#include "common/cuda/check.hpp"
#include "common/errors.hpp"

namespace ddp {

Device select_device(int index) {
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    // Without a GPU or driver CUDA reports an error rather than 0 devices.
    const char* const reason = status == cudaSuccess ? "0 devices" : cudaGetErrorString(status);
    throw DeviceError(
        std::string("no CUDA device is visible (") + reason +
        "); without a GPU, use the simulated ones: cmake --preset sim && cmake --build "
        "--preset sim, then the programs in build/sim/bin");
  }
  if (index < 0 || index >= count) {
    throw DeviceError("device " + std::to_string(index) + " was asked for, but " +
                      (count == 1 ? std::string("1 device is visible: 0")
                                  : std::to_string(count) + " devices are visible: 0 to " +
                                        std::to_string(count - 1)));
  }
  cuda::check(cudaSetDevice(index));
  cudaDeviceProp properties{};
  cuda::check(cudaGetDeviceProperties(&properties, index));
  const std::string name = properties.name;
  return {index, name, name.starts_with("Simulated")};
}

}  // namespace ddp
