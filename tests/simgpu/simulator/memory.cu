// What the simulator makes of memory beyond CUDA's rules: fresh memory is NaN, and every copy is
// checked against the allocations that it touches. On a GPU these are silent or undefined.
#include <cmath>
#include <cstring>
#include <fstream>
#include <string>

#include "common/cuda/dynamic_shared.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::simulator {
namespace {

using conformance::on_device;
using conformance::read_back;

TEST_CASE("fresh device memory reads as NaN in float and double", "[memory]") {
  const cuda::DeviceBuffer<float> floats(1001);
  const cuda::DeviceBuffer<double> doubles(77);
  for (const float value : read_back(floats)) CHECK(std::isnan(value));
  for (const double value : read_back(doubles)) CHECK(std::isnan(value));
}

TEST_CASE("memory that is freed and allocated again is NaN again", "[memory]") {
  for (int round = 0; round < 3; ++round) {
    const cuda::DeviceBuffer<float> buffer(64);
    for (const float value : read_back(buffer)) CHECK(std::isnan(value));
    REQUIRE(cudaMemset(buffer.data(), 0, 64 * sizeof(float)) == cudaSuccess);
  }
}

TEST_CASE("fresh pinned memory is NaN too", "[memory]") {
  const cuda::PinnedBuffer<float> buffer(10);
  for (std::size_t i = 0; i < 10; ++i) CHECK(std::isnan(buffer[i]));
}

/// Whether a part of this process's memory lies in a file in which other processes may map it.
bool shares_device_memory() {
  std::ifstream maps("/proc/self/maps");
  std::string line;
  while (std::getline(maps, line)) {
    if (line.find("simgpu-memory") != std::string::npos) return true;
  }
  return false;
}

TEST_CASE("a program without nccl.h has its memory to itself, on huge pages", "[memory]") {
  const cuda::DeviceBuffer<float> large(std::size_t{8} << 20);
  CHECK(!shares_device_memory());
}

__global__ void sum_unwritten(float* sums) {
  DDP_DYNAMIC_SHARED(float, tile);
  sums[blockIdx.x] = tile[5];
  tile[5] = 1;  // the next block must not see it
}

TEST_CASE("fresh dynamic shared memory is NaN in every block", "[memory]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> sums = on_device(std::vector<float>(4, 0));
  cuda::launch<sum_unwritten>({stream, 4, 1, 64}, sums.data());
  for (const float value : read_back(sums)) CHECK(std::isnan(value));
}

void check_refused(cudaError_t status) {
  CHECK(status == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("a copy past the end of an allocation is refused and copies nothing", "[memory]") {
  const std::vector<int> values = {1, 2, 3, 4};
  const cuda::DeviceBuffer<int> device = on_device(values);
  std::vector<int> host(5, -1);
  check_refused(cudaMemcpy(host.data(), device.data(), 17, cudaMemcpyDeviceToHost));
  check_refused(cudaMemcpy(host.data(), device.data() + 1, 16, cudaMemcpyDeviceToHost));
  check_refused(cudaMemcpy(device.data() + 3, host.data(), 8, cudaMemcpyHostToDevice));
  check_refused(cudaMemset(device.data() + 2, 0, 9));
  CHECK(host == std::vector<int>(5, -1));
  CHECK(read_back(device) == values);
}

TEST_CASE("a copy past the end of pinned memory is refused", "[memory]") {
  const cuda::DeviceBuffer<int> device = on_device(std::vector<int>(8, 1));
  const cuda::PinnedBuffer<int> pinned(4);
  check_refused(cudaMemcpy(pinned.data(), device.data(), 32, cudaMemcpyDeviceToHost));
  check_refused(cudaMemcpy(device.data(), pinned.data() + 1, 16, cudaMemcpyHostToDevice));
}

TEST_CASE("a copy in another direction than its pointers is refused", "[memory]") {
  const cuda::DeviceBuffer<int> device = on_device<int>({7});
  const cuda::PinnedBuffer<int> pinned(1);
  pinned[0] = 5;
  int host = 3;
  check_refused(cudaMemcpy(device.data(), &host, sizeof host, cudaMemcpyDeviceToHost));
  check_refused(cudaMemcpy(&host, device.data(), sizeof host, cudaMemcpyHostToDevice));
  check_refused(cudaMemcpy(&host, device.data(), sizeof host, cudaMemcpyHostToHost));
  check_refused(cudaMemcpy(device.data(), &host, sizeof host, cudaMemcpyDeviceToDevice));
  check_refused(cudaMemcpy(pinned.data(), device.data(), sizeof host, cudaMemcpyDeviceToDevice));
  CHECK(host == 3);
  CHECK(pinned[0] == 5);
  CHECK(read_back(device).front() == 7);
}

TEST_CASE("copies and memsets of freed memory are refused", "[memory]") {
  int* device = nullptr;
  REQUIRE(cudaMalloc(&device, 64) == cudaSuccess);
  REQUIRE(cudaFree(device) == cudaSuccess);
  int host = 3;
  check_refused(cudaMemcpy(&host, device, sizeof host, cudaMemcpyDeviceToHost));
  check_refused(cudaMemcpy(device, &host, sizeof host, cudaMemcpyHostToDevice));
  check_refused(cudaMemset(device, 0, 4));
  CHECK(host == 3);
}

TEST_CASE("a memset of memory that CUDA does not know is refused", "[memory]") {
  int host = 3;
  check_refused(cudaMemset(&host, 0, sizeof host));
  CHECK(host == 3);
}

TEST_CASE("freeing the middle of an allocation is refused", "[memory]") {
  const cuda::DeviceBuffer<int> device(100);
  check_refused(cudaFree(device.data() + 1));
  const cuda::PinnedBuffer<int> pinned(100);
  check_refused(cudaFreeHost(pinned.data() + 1));
  check_refused(cudaFree(pinned.data()));
  check_refused(cudaFreeHost(device.data()));
}

TEST_CASE("cudaMemGetInfo counts bytes exactly", "[memory]") {
  std::size_t before = 0, during = 0, after = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&before, &total) == cudaSuccess);
  {
    const cuda::DeviceBuffer<unsigned char> odd(12345), one(1);
    REQUIRE(cudaMemGetInfo(&during, &total) == cudaSuccess);
  }
  REQUIRE(cudaMemGetInfo(&after, &total) == cudaSuccess);
  CHECK(before - during == 12346);
  CHECK(before == after);
}

TEST_CASE("a call of CUDA inside a host function is not permitted", "[memory]") {
  const cuda::Stream stream;
  static cudaError_t seen;
  seen = cudaSuccess;
  const auto call_cuda = [](void*) { seen = cudaDeviceSynchronize(); };
  REQUIRE(cudaLaunchHostFunc(stream, call_cuda, nullptr) == cudaSuccess);
  stream.synchronize();
  CHECK(seen == cudaErrorNotPermitted);
}

TEST_CASE("every device names itself a simulated GPU", "[memory]") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    REQUIRE(cudaGetDeviceProperties(&properties, device) == cudaSuccess);
    CHECK(std::strstr(properties.name, "Simulated GPU") == properties.name);
  }
}

}  // namespace
}  // namespace ddp::simulator
