#include "tests/support/skip.hpp"

#include <cuda_runtime.h>

#include <cstdlib>

#ifndef CONFORMANCE_DEVICES
#define CONFORMANCE_DEVICES 1
#endif

namespace ddp {

std::optional<std::string> reason_to_skip() {
  // The first call of the program, so the place to say that all kernels are loaded at the start:
  // one that is loaded at its first launch may wait for the whole device, and would hang while a
  // test holds a stream back.
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);

  int found = 0;
  const cudaError_t status = cudaGetDeviceCount(&found);
  if (status == cudaErrorNoDevice || status == cudaErrorInsufficientDriver) {
    return std::string("no GPU to test: ") + cudaGetErrorString(status);
  }
  // Any other error is not a reason to skip: the first test will report it.
  if (status == cudaSuccess && found < CONFORMANCE_DEVICES) {
    return "these tests need " + std::to_string(CONFORMANCE_DEVICES) + " GPUs, found " +
           std::to_string(found);
  }
  return std::nullopt;
}

}  // namespace ddp
