// When an asynchronous copy reads and writes host memory.
#include <numeric>

#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

TEST_CASE("a pinned source is read when the copy runs, not at the call", "[async copies]") {
  const cuda::Stream stream;
  const cuda::PinnedBuffer<int> source(2);
  const cuda::DeviceBuffer<int> device = zeros_on_device<int>(2);
  source[0] = source[1] = 1;
  Gate gate(stream);
  CHECK(cudaMemcpyAsync(device.data(), source.data(), 2 * sizeof(int), cudaMemcpyHostToDevice,
                        stream) == cudaSuccess);
  source[1] = 2;  // while the copy still waits
  gate.open();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(read_back(device) == std::vector<int>{1, 2});
}

TEST_CASE("a pageable source may be changed as soon as the call returns", "[async copies]") {
  const cuda::Stream stream;
  for (const std::size_t size : {1U, 100U, 100000U}) {
    std::vector<int> source(size);
    std::iota(source.begin(), source.end(), 3);
    const std::vector<int> expected = source;
    const cuda::DeviceBuffer<int> device(size);
    keep_busy(stream, 10);
    CHECK(cudaMemcpyAsync(device.data(), source.data(), size * sizeof(int), cudaMemcpyHostToDevice,
                          stream) == cudaSuccess);
    source.assign(size, -1);
    CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
    CHECK(read_back(device) == expected);
  }
}

TEST_CASE("a pinned destination is written when the copy runs", "[async copies]") {
  const cuda::Stream stream;
  const cuda::PinnedBuffer<int> destination(1);
  const cuda::DeviceBuffer<int> device = on_device<int>({5});
  destination[0] = 1;
  Gate gate(stream);
  CHECK(cudaMemcpyAsync(destination.data(), device.data(), sizeof(int), cudaMemcpyDeviceToHost,
                        stream) == cudaSuccess);
  CHECK(stays_pending(stream));
  CHECK(destination[0] == 1);
  gate.open();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(destination[0] == 5);
  (void)cudaGetLastError();
}

TEST_CASE("a copy to pageable memory is complete once the stream was synchronised",
          "[async copies]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> device = zeros_on_device<int>(1);
  std::vector<int> destination(1, -1);
  keep_busy(stream, 10);
  cuda::launch<set>({stream, 1, 1}, device.data(), 6);
  CHECK(cudaMemcpyAsync(destination.data(), device.data(), sizeof(int), cudaMemcpyDeviceToHost,
                        stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(destination[0] == 6);
}

TEST_CASE("a copy between host memories is done when the call returns", "[async copies]") {
  const cuda::Stream stream;
  const cuda::PinnedBuffer<int> pinned(3);
  std::vector<int> source = {1, 2, 3};
  std::vector<int> destination(3);
  CHECK(cudaMemcpyAsync(destination.data(), source.data(), 3 * sizeof(int), cudaMemcpyHostToHost,
                        stream) == cudaSuccess);
  CHECK(destination == source);
  CHECK(cudaMemcpyAsync(pinned.data(), source.data(), 3 * sizeof(int), cudaMemcpyDefault, stream) ==
        cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(std::vector<int>(pinned.data(), pinned.data() + 3) == source);
}

TEST_CASE("a copy within device memory does not hold the host", "[async copies]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> values = on_device<int>({4, 0});
  Gate gate(stream);
  CHECK(cudaMemcpyAsync(values.data() + 1, values.data(), sizeof(int), cudaMemcpyDeviceToDevice,
                        stream) == cudaSuccess);
  CHECK(stays_pending(stream));
  gate.open();
  CHECK(read_back(values) == std::vector<int>{4, 4});
  (void)cudaGetLastError();
}

TEST_CASE("cudaMemsetAsync waits for its turn", "[async copies]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = on_device<int>({4});
  const cuda::PinnedBuffer<int> before(1);
  keep_busy(stream, 5);
  cuda::copy_async(before.data(), value.data(), 1, stream);
  CHECK(cudaMemsetAsync(value.data(), 0, sizeof(int), stream) == cudaSuccess);
  CHECK(read_back(value).front() == 0);
  CHECK(before[0] == 4);
}

TEST_CASE("two pinned buffers take turns: wait for the copy before filling a buffer again",
          "[async copies]") {
  const cuda::Stream stream;
  constexpr std::size_t rounds = 40, size = 64;
  const cuda::PinnedBuffer<int> buffers[2] = {cuda::PinnedBuffer<int>(size),
                                              cuda::PinnedBuffer<int>(size)};
  const cuda::Event copied[2];
  const cuda::DeviceBuffer<int> device = zeros_on_device<int>(rounds * size);
  for (std::size_t round = 0; round < rounds; ++round) {
    const std::size_t slot = round % 2;
    copied[slot].synchronize();  // never recorded at first: no wait
    for (std::size_t i = 0; i < size; ++i) buffers[slot][i] = static_cast<int>(round * size + i);
    cuda::copy_async(device.data() + round * size, buffers[slot].data(), size, stream);
    copied[slot].record(stream);
  }
  std::vector<int> expected(rounds * size);
  std::iota(expected.begin(), expected.end(), 0);
  CHECK(read_back(device) == expected);
}

}  // namespace
}  // namespace ddp::conformance
