// Several devices, and several threads of the host. These tests need two GPUs.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

__global__ void add(int* value, int more) { *value += more; }

int current_device() {
  int device = -1;
  cuda::check(cudaGetDevice(&device));
  return device;
}

// Makes a device current and goes back to device 0 at the end.
class OnDevice {
 public:
  explicit OnDevice(int device) { cuda::check(cudaSetDevice(device)); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;
  ~OnDevice() { cudaSetDevice(0); }
};

int value_of(const int* device_pointer) {
  int host = -1;
  cuda::check(cudaMemcpy(&host, device_pointer, sizeof host, cudaMemcpyDefault));
  return host;
}

TEST_CASE("the current device belongs to the thread; a new thread has device 0", "[devices]") {
  const OnDevice on_device(1);
  CHECK(current_device() == 1);
  int at_start = -1, after_set = -1;
  std::thread([&] {
    at_start = current_device();
    cuda::check(cudaSetDevice(1));
    after_set = current_device();
    cuda::check(cudaSetDevice(0));
  }).join();
  CHECK(at_start == 0);
  CHECK(after_set == 1);
  CHECK(current_device() == 1);
}

TEST_CASE("memory and streams belong to the device that was current", "[devices]") {
  const cuda::DeviceBuffer<int> on_first(1);
  const OnDevice on_device(1);
  const cuda::DeviceBuffer<int> on_second(1);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, on_first.data()) == cudaSuccess);
  CHECK(attributes.device == 0);
  REQUIRE(cudaPointerGetAttributes(&attributes, on_second.data()) == cudaSuccess);
  CHECK(attributes.device == 1);
  const cuda::Stream stream;
  cuda::launch<set>({stream, 1, 1}, on_second.data(), 5);
  stream.synchronize();
  CHECK(value_of(on_second.data()) == 5);
}

TEST_CASE("a launch into a stream of another device is refused", "[devices]") {
  const cuda::Stream stream;  // on device 0
  const cuda::DeviceBuffer<int> value(1);
  CHECK(cudaMemset(value.data(), 0, sizeof(int)) == cudaSuccess);
  {
    const OnDevice on_device(1);
    cudaLaunchConfig_t config{};
    config.gridDim = 1;
    config.blockDim = 1;
    config.stream = stream;
    CHECK(cudaLaunchKernelEx(&config, set, value.data(), 1) == cudaErrorInvalidResourceHandle);
    CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
  }
  stream.synchronize();
  CHECK(value_of(value.data()) == 0);
}

TEST_CASE("a copy may go into a stream of another device", "[devices]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value(1);
  const cuda::PinnedBuffer<int> host(1);
  host[0] = 6;
  const OnDevice on_device(1);
  CHECK(cudaMemcpyAsync(value.data(), host.data(), sizeof(int), cudaMemcpyHostToDevice, stream) ==
        cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(value_of(value.data()) == 6);
}

TEST_CASE("an event orders streams of two devices", "[devices]") {
  const cuda::Stream producer;
  const cuda::Event ready;
  const cuda::DeviceBuffer<int> value(1);
  keep_busy(producer, 10);
  cuda::launch<set>({producer, 1, 1}, value.data(), 41);
  ready.record(producer);

  const OnDevice on_device(1);
  const cuda::Stream consumer;
  const cuda::DeviceBuffer<int> copy(1);
  CHECK(cudaStreamWaitEvent(consumer, ready, 0) == cudaSuccess);
  CHECK(cudaMemcpyAsync(copy.data(), value.data(), sizeof(int), cudaMemcpyDefault, consumer) ==
        cudaSuccess);
  cuda::launch<add>({consumer, 1, 1}, copy.data(), 1);
  CHECK(cudaStreamSynchronize(consumer) == cudaSuccess);
  CHECK(value_of(copy.data()) == 42);
  CHECK(cudaEventQuery(ready) == cudaSuccess);  // also where another device is current
  CHECK(cudaEventSynchronize(ready) == cudaSuccess);
}

TEST_CASE("an event is recorded only in streams of its own device", "[devices]") {
  const cuda::Event event;  // of device 0
  const OnDevice on_device(1);
  const cuda::Stream stream;
  CHECK(cudaEventRecord(event, stream) == cudaErrorInvalidResourceHandle);
  CHECK(cudaGetLastError() == cudaErrorInvalidResourceHandle);
}

TEST_CASE("each device has a null stream of its own", "[devices]") {
  const OnDevice on_device(1);
  const cuda::DeviceBuffer<int> value(1);
  CHECK(cudaMemset(value.data(), 0, sizeof(int)) == cudaSuccess);
  CHECK(cudaSetDevice(0) == cudaSuccess);
  Gate gate(nullptr);  // in the null stream of device 0
  CHECK(cudaSetDevice(1) == cudaSuccess);
  cuda::launch<set>({nullptr, 1, 1}, value.data(), 3);
  CHECK(cudaStreamSynchronize(nullptr) == cudaSuccess);  // hangs if there were only one
  CHECK(value_of(value.data()) == 3);
}

TEST_CASE("cudaDeviceSynchronize waits for the current device only", "[devices]") {
  const cuda::Stream stream;
  const cuda::Event done;
  Gate gate(stream);
  done.record(stream);
  {
    const OnDevice on_device(1);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);  // hangs if it waited for device 0
  }
  CHECK(cudaEventQuery(done) == cudaErrorNotReady);
  (void)cudaGetLastError();
}

TEST_CASE("each device counts its own memory", "[devices]") {
  constexpr std::size_t bytes = std::size_t{64} << 20;
  std::size_t before[2], after[2], total = 0;
  for (int device = 1; device >= 0; --device) {
    cuda::check(cudaSetDevice(device));
    cuda::check(cudaMemGetInfo(&before[device], &total));
  }
  const cuda::DeviceBuffer<unsigned char> buffer(bytes);
  cuda::check(cudaMemGetInfo(&after[0], &total));
  const OnDevice on_device(1);
  cuda::check(cudaMemGetInfo(&after[1], &total));
  CHECK(before[0] - after[0] >= bytes);
  CHECK(before[1] == after[1]);
}

TEST_CASE("memory of one device may be freed where another is current", "[devices]") {
  int* value = nullptr;
  REQUIRE(cudaMalloc(&value, 64) == cudaSuccess);
  const OnDevice on_device(1);
  CHECK(cudaFree(value) == cudaSuccess);
  CHECK(cudaFree(value) == cudaErrorInvalidValue);
  (void)cudaGetLastError();
}

TEST_CASE("one thread a device: each works on its own", "[devices]") {
  int devices = 0;
  REQUIRE(cudaGetDeviceCount(&devices) == cudaSuccess);
  std::vector<int> results(static_cast<std::size_t>(devices), -1);
  std::vector<std::thread> threads;
  for (int device = 0; device < devices; ++device) {
    threads.emplace_back([device, &result = results[static_cast<std::size_t>(device)]] {
      cuda::check(cudaSetDevice(device));
      const cuda::Stream stream;
      const cuda::DeviceBuffer<int> value(1);
      cuda::clear_async(value.data(), 1, stream);
      for (int i = 0; i < 200; ++i) cuda::launch<add>({stream, 1, 1}, value.data(), device + 1);
      result = cuda::download(value.data(), 1, stream).front();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int device = 0; device < devices; ++device) {
    CHECK(results[static_cast<std::size_t>(device)] == 200 * (device + 1));
  }
}

TEST_CASE("a launch error on one device leaves the others alone", "[devices]") {
  const cuda::DeviceBuffer<int> value(1);
  {
    const OnDevice on_device(1);
    CHECK(cudaMalloc(static_cast<int**>(nullptr), 1) == cudaErrorInvalidValue);
  }
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);  // errors belong to the thread
  CHECK(cudaMemset(value.data(), 0, sizeof(int)) == cudaSuccess);
  CHECK(value_of(value.data()) == 0);
}

}  // namespace
}  // namespace ddp::conformance
