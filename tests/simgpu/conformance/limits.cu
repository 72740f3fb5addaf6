// What a launch may ask for: threads, grid, shared memory. A refused launch is reported by the
// call, runs nothing and harms nothing.
#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void count_threads(int* threads) { atomicAdd(threads, 1); }

// The status of a launch; `threads_run` tells how many threads then ran.
struct Outcome {
  cudaError_t status;
  int threads_run;
};

Outcome try_launch(dim3 grid, dim3 block, std::size_t shared_bytes = 0) {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> threads = zeros_on_device<int>(1);
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, count_threads, threads.data());
  CHECK(cudaGetLastError() == status);
  CHECK(cudaGetLastError() == cudaSuccess);  // not sticky
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  return {status, read_back(threads).front()};
}

void check_runs(dim3 grid, dim3 block, int threads) {
  const Outcome outcome = try_launch(grid, block);
  CHECK(outcome.status == cudaSuccess);
  CHECK(outcome.threads_run == threads);
}

void check_refused(dim3 grid, dim3 block) {
  CAPTURE(grid.x, grid.y, grid.z, block.x, block.y, block.z);
  const Outcome outcome = try_launch(grid, block);
  CHECK(outcome.status == cudaErrorInvalidConfiguration);
  CHECK(outcome.threads_run == 0);
}

TEST_CASE("a block has at most 1024 threads", "[limits]") {
  check_runs(1, 1024, 1024);
  check_runs(1, dim3(32, 32), 1024);
  check_runs(1, dim3(8, 8, 16), 1024);
  check_refused(1, 1025);
  check_refused(1, dim3(32, 33));
  check_refused(1, dim3(8, 8, 17));
}

TEST_CASE("a block has at most 1024, 1024 and 64 threads along x, y and z", "[limits]") {
  check_runs(1, dim3(1, 1024, 1), 1024);
  check_runs(1, dim3(1, 1, 64), 64);
  check_refused(1, dim3(1, 1025, 1));
  check_refused(1, dim3(1, 1, 65));
}

TEST_CASE("a grid has at most 65535 blocks along y and z", "[limits]") {
  check_runs(dim3(1, 65535, 1), 1, 65535);
  check_runs(dim3(1, 1, 65535), 1, 65535);
  check_runs(dim3(65536, 1, 1), 1, 65536);
  check_refused(dim3(1, 65536, 1), 1);
  check_refused(dim3(1, 1, 65536), 1);
}

TEST_CASE("an empty grid or block is refused", "[limits]") {
  check_refused(dim3(0, 1, 1), 32);
  check_refused(dim3(1, 0, 1), 32);
  check_refused(dim3(1, 1, 0), 32);
  check_refused(1, dim3(0, 1, 1));
  check_refused(1, dim3(1, 0, 1));
  check_refused(1, dim3(1, 1, 0));
}

TEST_CASE("work goes on after a refused launch", "[limits]") {
  check_refused(1, 2048);
  check_runs(2, 64, 128);
}

// Writes the last byte that the launch asked for.
__global__ void touch_last_byte(int* last, std::size_t bytes) {
  DDP_DYNAMIC_SHARED(unsigned char, memory);
  memory[bytes - 1] = 201;
  *last = memory[bytes - 1];
}

template <int id>  // one kernel a test: the attribute below belongs to the kernel
__global__ void touch_last_byte_raised(int* last, std::size_t bytes) {
  DDP_DYNAMIC_SHARED(unsigned char, memory);
  memory[bytes - 1] = 201;
  *last = memory[bytes - 1];
}

template <class Kernel>
cudaError_t launch_with_shared(Kernel* kernel, int* last, std::size_t bytes) {
  const cuda::Stream stream;
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 1;
  config.dynamicSmemBytes = bytes;
  config.stream = stream;
  const cudaError_t status = cudaLaunchKernelEx(&config, kernel, last, bytes);
  (void)cudaGetLastError();
  cuda::check(cudaStreamSynchronize(stream));
  return status;
}

TEST_CASE("a block has at most 48 KiB of dynamic shared memory by default", "[limits]") {
  const cuda::DeviceBuffer<int> last = zeros_on_device<int>(1);
  CHECK(launch_with_shared(touch_last_byte, last.data(), 48 * 1024) == cudaSuccess);
  CHECK(read_back(last).front() == 201);
  // The runtime's text names InvalidConfiguration for this, and drivers were seen to answer
  // InvalidValue.
  const cudaError_t refused = launch_with_shared(touch_last_byte, last.data(), 48 * 1024 + 1);
  CHECK((refused == cudaErrorInvalidConfiguration || refused == cudaErrorInvalidValue));
}

TEST_CASE("cudaFuncSetAttribute raises a kernel's dynamic shared memory", "[limits]") {
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  const std::size_t most = properties.sharedMemPerBlockOptin;
  REQUIRE(most > 48 * 1024);
  const cuda::DeviceBuffer<int> last = zeros_on_device<int>(1);
  const auto raised = touch_last_byte_raised<0>;
  CHECK(cudaFuncSetAttribute(raised, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(most)) == cudaSuccess);
  CHECK(launch_with_shared(raised, last.data(), most) == cudaSuccess);
  CHECK(read_back(last).front() == 201);
  // Another kernel keeps its limit.
  CHECK(launch_with_shared(touch_last_byte_raised<1>, last.data(), most) != cudaSuccess);
}

TEST_CASE("shared memory cannot be raised above what the device has", "[limits]") {
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  CHECK(cudaFuncSetAttribute(touch_last_byte_raised<2>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                             static_cast<int>(properties.sharedMemPerBlockOptin) + 1) ==
        cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
}  // namespace ddp::conformance
