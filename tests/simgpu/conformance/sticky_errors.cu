// Errors of a kernel that end the use of its device in this process: the next synchronising call
// reports them, and every call after it too. Each test is a process of its own.
#undef NDEBUG  // assert is to stay, also in an optimised build
#include <cassert>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

void check_sticky(cudaStream_t stream, int* value, cudaError_t expected) {
  CHECK(cudaStreamSynchronize(stream) == expected);
  CHECK(cudaDeviceSynchronize() == expected);
  CHECK(cudaGetLastError() == expected);
  // Reading the error does not clear it: the device stays lost.
  CHECK(cudaDeviceSynchronize() == expected);
  CHECK(cudaStreamSynchronize(stream) == expected);
  CHECK(cudaStreamQuery(stream) == expected);
  int host = 0;
  CHECK(cudaMemcpy(&host, value, sizeof host, cudaMemcpyDeviceToHost) == expected);
  int* more = nullptr;
  CHECK(cudaMalloc(&more, 16) == expected);
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1;
  config.stream = stream;
  CHECK(cudaLaunchKernelEx(&config, set, value, 1) == expected);
  CHECK(cudaFree(value) == expected);
}

// Enqueued behind a gate, so that the launch itself certainly knows nothing of the error.
template <auto Kernel>
void check_asynchronous_and_sticky(cudaError_t expected) {
  cudaStream_t stream = nullptr;
  int* value = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  REQUIRE(cudaMalloc(&value, 64) == cudaSuccess);
  {
    Gate gate(stream);
    cudaLaunchConfig_t config{};
    config.gridDim = 2;
    config.blockDim = 64;
    config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, Kernel, value) == cudaSuccess);
    CHECK(cudaPeekAtLastError() == cudaSuccess);
  }
  check_sticky(stream, value, expected);
  cudaStreamDestroy(stream);
}

__global__ void fail_an_assertion(int* value) {
  if (blockIdx.x == 1 && threadIdx.x == 5) assert(value == nullptr);
}

TEST_CASE("a failed assert is cudaErrorAssert", "[sticky][assert]") {
  check_asynchronous_and_sticky<fail_an_assertion>(cudaErrorAssert);
}

__global__ void trap(int* value) {
  if (blockIdx.x == 1 && threadIdx.x == 5 && value != nullptr) __trap();
}

TEST_CASE("a trap is cudaErrorLaunchFailure", "[sticky][trap]") {
  check_asynchronous_and_sticky<trap>(cudaErrorLaunchFailure);
}

// Far from all memory of the process and of the device.
__global__ void write_nowhere(int* value) {
  if (blockIdx.x == 1 && threadIdx.x == 5 && value != nullptr) {
    const volatile std::size_t nowhere = 16;  // volatile, or compilers warn
    *reinterpret_cast<int*>(nowhere) = 1;
  }
}

TEST_CASE("a write to an address that is nowhere is cudaErrorIllegalAddress", "[sticky][address]") {
  check_asynchronous_and_sticky<write_nowhere>(cudaErrorIllegalAddress);
}

}  // namespace
}  // namespace ddp::conformance
