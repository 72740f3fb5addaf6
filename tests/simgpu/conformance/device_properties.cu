// What a program can ask about a device, and the limits that a CUDA device of compute
// capability 7.5 or later has.
#include <cstring>

#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

TEST_CASE("the properties of every device", "[properties]") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  REQUIRE(devices >= 1);
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{};
    REQUIRE(cudaGetDeviceProperties(&properties, device) == cudaSuccess);
    CHECK(std::strlen(properties.name) > 0);
    CHECK(properties.major * 10 + properties.minor >= 75);
    CHECK(properties.multiProcessorCount >= 1);
    CHECK(properties.totalGlobalMem >= std::size_t{1} << 28);
    CHECK(properties.sharedMemPerBlock == 48 * 1024);
    CHECK(properties.sharedMemPerBlockOptin >= properties.sharedMemPerBlock);
    CHECK(properties.warpSize == 32);
    CHECK(properties.maxThreadsPerBlock == 1024);
    CHECK(properties.maxThreadsDim[0] == 1024);
    CHECK(properties.maxThreadsDim[1] == 1024);
    CHECK(properties.maxThreadsDim[2] == 64);
    CHECK(properties.maxGridSize[0] == 2147483647);
    CHECK(properties.maxGridSize[1] == 65535);
    CHECK(properties.maxGridSize[2] == 65535);
    CHECK(properties.unifiedAddressing == 1);
  }
}

TEST_CASE("no two devices have the same UUID, and a device keeps its own", "[properties]") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  std::vector<std::string> seen;
  for (int device = 0; device < devices; ++device) {
    cudaDeviceProp properties{}, again{};
    REQUIRE(cudaGetDeviceProperties(&properties, device) == cudaSuccess);
    REQUIRE(cudaGetDeviceProperties(&again, device) == cudaSuccess);
    const std::string uuid(properties.uuid.bytes, sizeof properties.uuid.bytes);
    CHECK(uuid == std::string(again.uuid.bytes, sizeof again.uuid.bytes));
    CHECK(uuid != std::string(sizeof properties.uuid.bytes, '\0'));
    for (const std::string& other : seen) CHECK(uuid != other);
    seen.push_back(uuid);
  }
}

TEST_CASE("attributes agree with the properties", "[properties]") {
  cudaDeviceProp properties{};
  REQUIRE(cudaGetDeviceProperties(&properties, 0) == cudaSuccess);
  const auto attribute = [](cudaDeviceAttr which) {
    int value = -1;
    CHECK(cudaDeviceGetAttribute(&value, which, 0) == cudaSuccess);
    return value;
  };
  CHECK(attribute(cudaDevAttrWarpSize) == properties.warpSize);
  CHECK(attribute(cudaDevAttrMaxThreadsPerBlock) == properties.maxThreadsPerBlock);
  CHECK(attribute(cudaDevAttrMultiProcessorCount) == properties.multiProcessorCount);
  CHECK(attribute(cudaDevAttrComputeCapabilityMajor) == properties.major);
  CHECK(attribute(cudaDevAttrComputeCapabilityMinor) == properties.minor);
  CHECK(static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlock)) ==
        properties.sharedMemPerBlock);
  CHECK(static_cast<std::size_t>(attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin)) ==
        properties.sharedMemPerBlockOptin);
}

TEST_CASE("a device that does not exist is cudaErrorInvalidDevice", "[properties]") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  int current = -1;
  REQUIRE(cudaGetDevice(&current) == cudaSuccess);
  cudaDeviceProp properties{};
  for (const int wrong : {-1, devices, devices + 100}) {
    CHECK(cudaSetDevice(wrong) == cudaErrorInvalidDevice);
    CHECK(cudaGetDeviceProperties(&properties, wrong) == cudaErrorInvalidDevice);
    CHECK(cudaGetLastError() == cudaErrorInvalidDevice);
    int after = -1;
    CHECK(cudaGetDevice(&after) == cudaSuccess);
    CHECK(after == current);
  }
}

TEST_CASE("the versions of runtime and driver", "[properties]") {
  int runtime = 0, driver = 0;
  REQUIRE(cudaRuntimeGetVersion(&runtime) == cudaSuccess);
  REQUIRE(cudaDriverGetVersion(&driver) == cudaSuccess);
  CHECK(runtime >= 12040);  // 1000 * major + 10 * minor
  CHECK(driver / 1000 >= runtime / 1000);
}

}  // namespace
}  // namespace ddp::conformance
