// Device and pinned memory: getting, freeing, asking about it.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

std::size_t free_bytes() {
  std::size_t free = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free, &total));
  CHECK(free <= total);
  return free;
}

TEST_CASE("cudaMemGetInfo follows what is allocated and freed", "[allocation]") {
  const std::size_t before = free_bytes();
  unsigned char* first = nullptr;
  unsigned char* second = nullptr;
  REQUIRE(cudaMalloc(&first, 64 * mebibyte) == cudaSuccess);
  CHECK(before - free_bytes() >= 64 * mebibyte);
  CHECK(before - free_bytes() <= 68 * mebibyte);
  REQUIRE(cudaMalloc(&second, 32 * mebibyte) == cudaSuccess);
  CHECK(before - free_bytes() >= 96 * mebibyte);
  CHECK(cudaFree(first) == cudaSuccess);
  CHECK(before - free_bytes() <= 36 * mebibyte);
  CHECK(cudaFree(second) == cudaSuccess);
  CHECK(free_bytes() == before);
}

TEST_CASE("pinned memory takes none of the device's", "[allocation]") {
  { const cuda::PinnedBuffer<int> first(1); }  // what the runtime needs for itself, once
  const std::size_t before = free_bytes();
  const cuda::PinnedBuffer<unsigned char> pinned(16 * mebibyte);
  CHECK(before - free_bytes() < 16 * mebibyte);
}

TEST_CASE("an allocation larger than the device fails, and nothing else does", "[allocation]") {
  std::size_t free = 0, total = 0;
  REQUIRE(cudaMemGetInfo(&free, &total) == cudaSuccess);
  int* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, total + mebibyte) == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaErrorMemoryAllocation);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(cudaMalloc(&pointer, mebibyte) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
}

TEST_CASE("freeing null does nothing; an allocation of nothing can be freed", "[allocation]") {
  CHECK(cudaFree(nullptr) == cudaSuccess);
  int* pointer = nullptr;
  CHECK(cudaMalloc(&pointer, 0) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
}

TEST_CASE("freeing twice, or what was never allocated, is cudaErrorInvalidValue", "[allocation]") {
  int* pointer = nullptr;
  REQUIRE(cudaMalloc(&pointer, 4096) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaSuccess);
  CHECK(cudaFree(pointer) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  int on_host = 0;
  CHECK(cudaFree(&on_host) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaSuccess);  // not sticky
}

TEST_CASE("a null place for the pointer is refused", "[allocation]") {
  CHECK(cudaMalloc(static_cast<int**>(nullptr), 4) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

TEST_CASE("allocations do not overlap", "[allocation]") {
  const cuda::DeviceBuffer<unsigned char> first(1000), second(1), third(3000);
  REQUIRE(cudaMemset(first.data(), 1, 1000) == cudaSuccess);
  REQUIRE(cudaMemset(second.data(), 2, 1) == cudaSuccess);
  REQUIRE(cudaMemset(third.data(), 3, 3000) == cudaSuccess);
  CHECK(read_back(first) == std::vector<unsigned char>(1000, 1));
  CHECK(read_back(second) == std::vector<unsigned char>(1, 2));
  CHECK(read_back(third) == std::vector<unsigned char>(3000, 3));
}

__global__ void set(int* value, int to) { *value = to; }

TEST_CASE("cudaFree waits for the work that runs", "[allocation]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> other(1);
  int* value = nullptr;
  REQUIRE(cudaMalloc(&value, sizeof(int)) == cudaSuccess);
  keep_busy(stream, 20);
  cuda::launch<set>({stream, 1, 1}, value, 1);
  cuda::launch<set>({stream, 1, 1}, other.data(), 1);
  CHECK(cudaFree(value) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
}

cudaMemoryType type_of(const void* pointer) {
  cudaPointerAttributes attributes{};
  CHECK(cudaPointerGetAttributes(&attributes, pointer) == cudaSuccess);
  return attributes.type;
}

TEST_CASE("cudaPointerGetAttributes knows device, pinned and other memory", "[allocation]") {
  const cuda::DeviceBuffer<int> device(100);
  const cuda::PinnedBuffer<int> pinned(100);
  const std::vector<int> pageable(100);
  CHECK(type_of(device.data()) == cudaMemoryTypeDevice);
  CHECK(type_of(device.data() + 99) == cudaMemoryTypeDevice);
  CHECK(type_of(pinned.data()) == cudaMemoryTypeHost);
  CHECK(type_of(pinned.data() + 99) == cudaMemoryTypeHost);
  CHECK(type_of(pageable.data()) == cudaMemoryTypeUnregistered);
}

TEST_CASE("cudaPointerGetAttributes gives the device and the pointers of each side",
          "[allocation]") {
  const cuda::DeviceBuffer<int> device(100);
  const cuda::PinnedBuffer<int> pinned(100);
  cudaPointerAttributes attributes{};
  REQUIRE(cudaPointerGetAttributes(&attributes, device.data() + 3) == cudaSuccess);
  CHECK(attributes.device == 0);
  CHECK(attributes.devicePointer == device.data() + 3);
  CHECK(attributes.hostPointer == nullptr);
  REQUIRE(cudaPointerGetAttributes(&attributes, pinned.data() + 3) == cudaSuccess);
  CHECK(attributes.hostPointer == pinned.data() + 3);
}

TEST_CASE("kernels read and write pinned memory", "[allocation]") {
  const cuda::Stream stream;
  const cuda::PinnedBuffer<int> pinned(1);
  pinned[0] = 0;
  cuda::launch<set>({stream, 1, 1}, pinned.data(), 12);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(pinned[0] == 12);
}

TEST_CASE("cudaHostAlloc gives pinned memory", "[allocation]") {
  void* pointer = nullptr;
  REQUIRE(cudaHostAlloc(&pointer, 100, cudaHostAllocPortable) == cudaSuccess);
  CHECK(type_of(pointer) == cudaMemoryTypeHost);
  CHECK(cudaFreeHost(pointer) == cudaSuccess);
  CHECK(cudaFreeHost(pointer) != cudaSuccess);
  (void)cudaGetLastError();
}

}  // namespace
}  // namespace ddp::conformance
