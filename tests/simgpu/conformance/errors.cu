// How errors are reported: by the call, and again by cudaGetLastError and cudaPeekAtLastError.
// Errors that end the use of a device are in sticky_errors.cu.
#include <cstring>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

TEST_CASE("cudaGetLastError resets the error, cudaPeekAtLastError does not", "[errors]") {
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidDevice);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
  CHECK(cudaPeekAtLastError() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("a call that succeeds leaves an earlier error to be read", "[errors]") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  int device = -1;
  CHECK(cudaGetDevice(&device) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("the last of two errors is kept", "[errors]") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  CHECK(cudaMalloc(static_cast<int**>(nullptr), 4) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

TEST_CASE("each host thread has a last error of its own", "[errors]") {
  CHECK(cudaSetDevice(-1) == cudaErrorInvalidDevice);
  cudaError_t seen_by_other = cudaErrorUnknown;
  std::thread([&seen_by_other] { seen_by_other = cudaGetLastError(); }).join();
  CHECK(seen_by_other == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
}

TEST_CASE("a wrong launch configuration is reported at once and harms nothing", "[errors]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 4096;
  config.stream = stream;
  CHECK(cudaLaunchKernelEx(&config, set, value.data(), 1) == cudaErrorInvalidConfiguration);
  CHECK(cudaPeekAtLastError() == cudaErrorInvalidConfiguration);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
  config.blockDim = 1;
  CHECK(cudaLaunchKernelEx(&config, set, value.data(), 2) == cudaSuccess);
  CHECK(read_back(value).front() == 2);
}

TEST_CASE("the launch helper throws an error that names the line of the launch", "[errors]") {
  const cuda::Stream stream;
  std::string message;
  try {
    cuda::launch<set>({stream, 1, 2000}, nullptr, 1);
  } catch (const std::exception& error) {
    message = error.what();
  }
  CHECK(message.find("errors.cu:") != std::string::npos);
  CHECK(message.find("cudaErrorInvalidConfiguration") != std::string::npos);
  CHECK(cudaGetLastError() == cudaErrorInvalidConfiguration);
}

TEST_CASE("cudaGetErrorName gives the name in the header", "[errors]") {
  const auto name = [](cudaError_t error) { return std::string(cudaGetErrorName(error)); };
  CHECK(name(cudaSuccess) == "cudaSuccess");
  CHECK(name(cudaErrorInvalidValue) == "cudaErrorInvalidValue");
  CHECK(name(cudaErrorMemoryAllocation) == "cudaErrorMemoryAllocation");
  CHECK(name(cudaErrorInvalidConfiguration) == "cudaErrorInvalidConfiguration");
  CHECK(name(cudaErrorInvalidMemcpyDirection) == "cudaErrorInvalidMemcpyDirection");
  CHECK(name(cudaErrorInsufficientDriver) == "cudaErrorInsufficientDriver");
  CHECK(name(cudaErrorNoDevice) == "cudaErrorNoDevice");
  CHECK(name(cudaErrorInvalidDevice) == "cudaErrorInvalidDevice");
  CHECK(name(cudaErrorInvalidResourceHandle) == "cudaErrorInvalidResourceHandle");
  CHECK(name(cudaErrorNotReady) == "cudaErrorNotReady");
  CHECK(name(cudaErrorIllegalAddress) == "cudaErrorIllegalAddress");
  CHECK(name(cudaErrorAssert) == "cudaErrorAssert");
  CHECK(name(cudaErrorMisalignedAddress) == "cudaErrorMisalignedAddress");
  CHECK(name(cudaErrorLaunchFailure) == "cudaErrorLaunchFailure");
  CHECK(name(static_cast<cudaError_t>(12345)) == "unrecognized error code");
}

TEST_CASE("error codes have CUDA's numbers", "[errors]") {
  CHECK(static_cast<int>(cudaErrorInvalidValue) == 1);
  CHECK(static_cast<int>(cudaErrorMemoryAllocation) == 2);
  CHECK(static_cast<int>(cudaErrorInvalidConfiguration) == 9);
  CHECK(static_cast<int>(cudaErrorInvalidMemcpyDirection) == 21);
  CHECK(static_cast<int>(cudaErrorInsufficientDriver) == 35);
  CHECK(static_cast<int>(cudaErrorNoDevice) == 100);
  CHECK(static_cast<int>(cudaErrorInvalidDevice) == 101);
  CHECK(static_cast<int>(cudaErrorInvalidResourceHandle) == 400);
  CHECK(static_cast<int>(cudaErrorNotReady) == 600);
  CHECK(static_cast<int>(cudaErrorIllegalAddress) == 700);
  CHECK(static_cast<int>(cudaErrorAssert) == 710);
  CHECK(static_cast<int>(cudaErrorLaunchFailure) == 719);
}

TEST_CASE("cudaGetErrorString explains in words", "[errors]") {
  for (const cudaError_t error : {cudaSuccess, cudaErrorInvalidValue, cudaErrorMemoryAllocation,
                                  cudaErrorNotReady, cudaErrorNoDevice, cudaErrorAssert}) {
    CHECK(std::strlen(cudaGetErrorString(error)) > 0);
    CHECK(std::strcmp(cudaGetErrorString(error), cudaGetErrorName(error)) != 0);
  }
  CHECK(std::strcmp(cudaGetErrorString(cudaSuccess), cudaGetErrorString(cudaErrorUnknown)) != 0);
}

}  // namespace
}  // namespace ddp::conformance
