#include "device.hpp"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "sanitizer.hpp"
#include "settings.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"
#include "stream.hpp"

namespace simgpu {
namespace {

thread_local int current_ordinal = 0;
thread_local cudaError_t last_error = cudaSuccess;
thread_local Device* worker_device = nullptr;
thread_local bool inside_host_function = false;

std::vector<std::unique_ptr<Device>> make_devices() {
  std::vector<std::unique_ptr<Device>> made;
  for (const int physical : settings().devices) {
    made.push_back(std::make_unique<Device>(static_cast<int>(made.size()), physical));
  }
  if (settings().report_leaks) std::atexit(report_leaks_at_exit);
  return made;
}

}  // namespace

const std::vector<std::unique_ptr<Device>>& devices() {
  static const auto& made = *new std::vector<std::unique_ptr<Device>>(make_devices());
  return made;
}

Current current() {
  if (devices().empty()) return {nullptr, cudaErrorNoDevice};
  if (inside_host_function) return {nullptr, cudaErrorNotPermitted};
  Device* device = devices()[static_cast<std::size_t>(current_ordinal)].get();
  return {device, device->sticky.load()};
}

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

void fail_current_device(cudaError_t error, const std::string& message) {
  std::fprintf(stderr, "simgpu: device %d: %s: %s\n", worker_device->ordinal,
               cudaGetErrorName(error), message.c_str());
  worker_device->sticky = error;
}

void set_worker_device(Device* device) { worker_device = device; }
bool is_worker() { return worker_device != nullptr; }
void set_inside_host_function(bool inside) { inside_host_function = inside; }

void Device::synchronize() {
  std::vector<std::shared_ptr<CUstream_st>> all;
  {
    QuietLock lock(mutex);
    all = streams;
    if (null_stream) all.push_back(null_stream);
  }
  for (const auto& stream : all) stream->wait_until(stream->tail());
}

}  // namespace simgpu

using simgpu::current;
using simgpu::report;

cudaError_t cudaGetDeviceCount(int* count) {
  if (count == nullptr) return report(cudaErrorInvalidValue);
  *count = static_cast<int>(simgpu::devices().size());
  return report(*count == 0 ? cudaErrorNoDevice : cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
  if (device == nullptr) return report(cudaErrorInvalidValue);
  if (simgpu::devices().empty()) return report(cudaErrorNoDevice);
  *device = simgpu::current_ordinal;
  return cudaSuccess;
}

cudaError_t cudaSetDevice(int device) {
  if (simgpu::devices().empty()) return report(cudaErrorNoDevice);
  if (device < 0 || static_cast<std::size_t>(device) >= simgpu::devices().size()) {
    return report(cudaErrorInvalidDevice);
  }
  simgpu::current_ordinal = device;
  return report(current().error);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (properties == nullptr) return report(cudaErrorInvalidValue);
  if (simgpu::devices().empty()) return report(cudaErrorNoDevice);
  if (device < 0 || static_cast<std::size_t>(device) >= simgpu::devices().size()) {
    return report(cudaErrorInvalidDevice);
  }
  const int physical = simgpu::devices()[static_cast<std::size_t>(device)]->physical;
  cudaDeviceProp p{};
  std::snprintf(p.name, sizeof p.name, "Simulated GPU %d (CPU)", physical);
  // Unlike on two hosts, equal on one: what refuses two ranks on one GPU can be tried.
  char host[8] = {};
  gethostname(host, sizeof host);
  std::memcpy(p.uuid.bytes, "simgpu", 6);
  std::memcpy(p.uuid.bytes + 6, host, sizeof host);
  p.uuid.bytes[15] = static_cast<char>(physical);
  p.totalGlobalMem = simgpu::settings().device_memory;
  p.sharedMemPerBlock = simgpu::default_shared;
  p.sharedMemPerBlockOptin = simgpu::optin_shared;
  p.regsPerBlock = 65536;
  p.warpSize = 32;
  p.maxThreadsPerBlock = 1024;
  p.maxThreadsDim[0] = p.maxThreadsDim[1] = 1024;
  p.maxThreadsDim[2] = 64;
  p.maxGridSize[0] = 2147483647;
  p.maxGridSize[1] = p.maxGridSize[2] = 65535;
  p.maxThreadsPerMultiProcessor = 1024;  // one block at a time
  p.multiProcessorCount = 1;
  p.major = simgpu::settings().compute_capability.major;
  p.minor = simgpu::settings().compute_capability.minor;
  p.pciDeviceID = physical;
  p.concurrentKernels = 1;
  p.asyncEngineCount = 2;
  p.unifiedAddressing = 1;
  p.canMapHostMemory = 1;
  *properties = p;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  cudaDeviceProp p{};
  if (const cudaError_t error = cudaGetDeviceProperties(&p, device); error != cudaSuccess) {
    return error;
  }
  if (value == nullptr) return report(cudaErrorInvalidValue);
  switch (attribute) {
    case cudaDevAttrMaxThreadsPerBlock:
      *value = p.maxThreadsPerBlock;
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = static_cast<int>(p.sharedMemPerBlock);
      return cudaSuccess;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = static_cast<int>(p.sharedMemPerBlockOptin);
      return cudaSuccess;
    case cudaDevAttrWarpSize:
      *value = p.warpSize;
      return cudaSuccess;
    case cudaDevAttrMultiProcessorCount:
      *value = p.multiProcessorCount;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMajor:
      *value = p.major;
      return cudaSuccess;
    case cudaDevAttrComputeCapabilityMinor:
      *value = p.minor;
      return cudaSuccess;
  }
  return report(cudaErrorInvalidValue);
}

cudaError_t cudaDeviceSynchronize() {
  ++simgpu::counters().host_waits;
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  device->synchronize();
  return report(device->sticky);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (least != nullptr) *least = 0;
  if (greatest != nullptr) *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  if (version == nullptr) return report(cudaErrorInvalidValue);
  *version = 13000;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) { return cudaRuntimeGetVersion(version); }

cudaError_t cudaGetLastError() {
  const cudaError_t error = cudaPeekAtLastError();
  simgpu::last_error = cudaSuccess;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  // A sticky error stays: the device is lost for this process.
  const auto [device, error] = current();
  return device != nullptr && error != cudaSuccess ? error : simgpu::last_error;
}
