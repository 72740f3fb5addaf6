// cudaMemcpy and cudaMemset: every kind of copy, parts of buffers, and what is refused.
#include <cstdint>
#include <numeric>

#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

std::vector<int> ascending(std::size_t size, int first) {
  std::vector<int> values(size);
  std::iota(values.begin(), values.end(), first);
  return values;
}

TEST_CASE("copies of every kind", "[copies]") {
  constexpr std::size_t size = 1000, bytes = size * sizeof(int);
  const std::vector<int> source = ascending(size, 17);
  const cuda::DeviceBuffer<int> first(size), second(size);
  std::vector<int> middle(size), destination(size);
  CHECK(cudaMemcpy(middle.data(), source.data(), bytes, cudaMemcpyHostToHost) == cudaSuccess);
  CHECK(cudaMemcpy(first.data(), middle.data(), bytes, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(second.data(), first.data(), bytes, cudaMemcpyDeviceToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(destination.data(), second.data(), bytes, cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(destination == source);
}

TEST_CASE("cudaMemcpyDefault takes the direction from the pointers", "[copies]") {
  constexpr std::size_t size = 100, bytes = size * sizeof(int);
  const std::vector<int> source = ascending(size, 5);
  const cuda::PinnedBuffer<int> pinned(size);
  const cuda::DeviceBuffer<int> first(size), second(size);
  std::vector<int> destination(size);
  CHECK(cudaMemcpy(pinned.data(), source.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(first.data(), pinned.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(second.data(), first.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(cudaMemcpy(destination.data(), second.data(), bytes, cudaMemcpyDefault) == cudaSuccess);
  CHECK(destination == source);
}

TEST_CASE("a copy may begin and end inside a buffer and leaves the rest alone", "[copies]") {
  const cuda::DeviceBuffer<int> device = on_device(ascending(10, 0));
  const std::vector<int> source = {-1, -2, -3};
  CHECK(cudaMemcpy(device.data() + 4, source.data(), 3 * sizeof(int), cudaMemcpyHostToDevice) ==
        cudaSuccess);
  CHECK(read_back(device) == std::vector<int>{0, 1, 2, 3, -1, -2, -3, 7, 8, 9});
  std::vector<int> destination(4, 100);
  CHECK(cudaMemcpy(destination.data() + 1, device.data() + 3, 2 * sizeof(int),
                   cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(destination == std::vector<int>{100, 3, -1, 100});
}

TEST_CASE("a copy of odd size at an odd address", "[copies]") {
  std::vector<unsigned char> source(101);
  std::iota(source.begin(), source.end(), static_cast<unsigned char>(0));
  const cuda::DeviceBuffer<unsigned char> device = zeros_on_device<unsigned char>(128);
  CHECK(cudaMemcpy(device.data() + 13, source.data(), 101, cudaMemcpyHostToDevice) == cudaSuccess);
  const std::vector<unsigned char> seen = read_back(device);
  CHECK(std::vector<unsigned char>(seen.begin() + 13, seen.begin() + 114) == source);
  CHECK(seen[12] == 0);
  CHECK(seen[114] == 0);
}

TEST_CASE("a copy of nothing succeeds", "[copies]") {
  const cuda::DeviceBuffer<int> device = on_device<int>({3});
  int host = 4;
  CHECK(cudaMemcpy(device.data(), &host, 0, cudaMemcpyHostToDevice) == cudaSuccess);
  CHECK(cudaMemcpy(&host, device.data(), 0, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(host == 4);
  CHECK(read_back(device).front() == 3);
}

TEST_CASE("a synchronous copy to the host is complete when it returns", "[copies]") {
  const cuda::DeviceBuffer<int> device = on_device(ascending(1 << 20, 1));
  std::vector<int> host(1 << 20);
  CHECK(cudaMemcpy(host.data(), device.data(), host.size() * sizeof(int), cudaMemcpyDeviceToHost) ==
        cudaSuccess);
  CHECK(host == ascending(1 << 20, 1));
}

TEST_CASE("cudaMemset sets bytes, the value's lowest", "[copies]") {
  const cuda::DeviceBuffer<std::uint32_t> device =
      on_device(std::vector<std::uint32_t>(6, 0xffffffffU));
  CHECK(cudaMemset(device.data(), 0x1234, 4 * sizeof(std::uint32_t)) == cudaSuccess);
  CHECK(cudaMemset(device.data() + 4, 0, 3) == cudaSuccess);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(read_back(device) == std::vector<std::uint32_t>{0x34343434U, 0x34343434U, 0x34343434U,
                                                        0x34343434U, 0xff000000U, 0xffffffffU});
}

TEST_CASE("a kind that does not exist is cudaErrorInvalidMemcpyDirection", "[copies]") {
  const cuda::DeviceBuffer<int> device = on_device<int>({3});
  int host = 4;
  CHECK(cudaMemcpy(&host, device.data(), sizeof host, static_cast<cudaMemcpyKind>(7)) ==
        cudaErrorInvalidMemcpyDirection);
  CHECK(cudaGetLastError() == cudaErrorInvalidMemcpyDirection);
  CHECK(host == 4);
}

TEST_CASE("a null pointer is refused", "[copies]") {
  const cuda::DeviceBuffer<int> device = on_device<int>({3});
  int host = 4;
  CHECK(cudaMemcpy(nullptr, &host, sizeof host, cudaMemcpyHostToDevice) == cudaErrorInvalidValue);
  CHECK(cudaMemcpy(device.data(), nullptr, sizeof host, cudaMemcpyHostToDevice) ==
        cudaErrorInvalidValue);
  CHECK(cudaMemset(nullptr, 0, 4) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
  CHECK(read_back(device).front() == 3);
}

}  // namespace
}  // namespace ddp::conformance
