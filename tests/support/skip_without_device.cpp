#include <cuda_runtime.h>

#include "tests/support/skip.hpp"

namespace ddp {

std::optional<std::string> reason_to_skip() {
  int devices = 0;
  const cudaError_t status = cudaGetDeviceCount(&devices);
  if (status == cudaSuccess && devices > 0) return std::nullopt;
  return std::string("no CUDA device is visible: ") +
         (status == cudaSuccess ? "0 devices" : cudaGetErrorString(status));
}

bool needs_device() { return true; }

}  // namespace ddp
