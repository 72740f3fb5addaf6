// A stream is a queue: its work runs in order, and its end can be asked for or waited for.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void append_digit(unsigned* number, unsigned digit) { *number = *number * 31 + digit; }

__global__ void set(int* value, int to) { *value = to; }

TEST_CASE("kernels of a stream run one after another, in order", "[streams]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned> number = zeros_on_device<unsigned>(1);
  unsigned expected = 0;
  for (unsigned i = 0; i < 500; ++i) {
    cuda::launch<append_digit>({stream, 1, 1}, number.data(), i);
    expected = expected * 31 + i;
  }
  CHECK(read_back(number).front() == expected);
}

TEST_CASE("kernels, copies and memsets of a stream keep their order among each other",
          "[streams]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value(1), copy(1);
  const cuda::PinnedBuffer<int> host(4);
  const auto copy_to_host = [&](std::size_t index, const int* from) {
    return cudaMemcpyAsync(host.data() + index, from, sizeof(int), cudaMemcpyDeviceToHost, stream);
  };
  CHECK(cudaMemsetAsync(value.data(), 0, sizeof(int), stream) == cudaSuccess);
  CHECK(copy_to_host(0, value.data()) == cudaSuccess);
  cuda::launch<set>({stream, 1, 1}, value.data(), 7);
  CHECK(copy_to_host(1, value.data()) == cudaSuccess);
  CHECK(cudaMemcpyAsync(copy.data(), value.data(), sizeof(int), cudaMemcpyDeviceToDevice, stream) ==
        cudaSuccess);
  CHECK(cudaMemsetAsync(value.data(), 0xff, sizeof(int), stream) == cudaSuccess);
  CHECK(copy_to_host(2, value.data()) == cudaSuccess);
  CHECK(copy_to_host(3, copy.data()) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(host[0] == 0);
  CHECK(host[1] == 7);
  CHECK(host[2] == -1);
  CHECK(host[3] == 7);
}

TEST_CASE("cudaStreamQuery tells whether work is left", "[streams]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  Gate gate(stream);
  cuda::launch<set>({stream, 1, 1}, value.data(), 1);
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  gate.open();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaStreamQuery(stream) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("a launch returns before the kernel has run", "[streams]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  const cuda::PinnedBuffer<int> host(1);
  host[0] = -1;
  Gate gate(stream);
  cuda::launch<set>({stream, 1, 1}, value.data(), 5);
  cuda::copy_async(host.data(), value.data(), 1, stream);
  CHECK(stays_pending(stream));
  gate.open();
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(host[0] == 5);
  (void)cudaGetLastError();
}

TEST_CASE("streams do not wait for each other", "[streams]") {
  const cuda::Stream held, free;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  const cuda::DeviceBuffer<int> other = zeros_on_device<int>(1);
  Gate gate(held);
  cuda::launch<set>({held, 1, 1}, value.data(), 1);
  cuda::launch<set>({free, 1, 1}, other.data(), 2);
  CHECK(cudaStreamSynchronize(free) == cudaSuccess);  // hangs if it waited
  CHECK(cudaStreamQuery(held) == cudaErrorNotReady);
  gate.open();
  CHECK(read_back(value).front() == 1);
  CHECK(read_back(other).front() == 2);
  (void)cudaGetLastError();
}

TEST_CASE("cudaDeviceSynchronize waits for all streams", "[streams]") {
  const cuda::Stream first, second;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  keep_busy(first, 20);
  cuda::launch<set>({first, 1, 1}, values.data(), 1);
  keep_busy(second, 5);
  cuda::launch<set>({second, 1, 1}, values.data() + 1, 2);
  CHECK(cudaDeviceSynchronize() == cudaSuccess);
  CHECK(cudaStreamQuery(first) == cudaSuccess);
  CHECK(cudaStreamQuery(second) == cudaSuccess);
}

TEST_CASE("destroying a stream does not wait, and its work is still done", "[streams]") {
  const cuda::Stream watcher;
  cudaStream_t stream = nullptr;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  const cuda::Event done;
  REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  {
    Gate gate(stream);
    cuda::launch<set>({stream, 1, 1}, value.data(), 9);
    done.record(stream);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);  // hangs if it waited: the gate is shut
    gate.open();
  }
  done.synchronize();
  CHECK(read_back(value).front() == 9);
}

TEST_CASE("a work item's stream may be used from several threads", "[streams]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned> numbers = zeros_on_device<unsigned>(4);
  std::vector<std::thread> threads;
  for (unsigned thread = 0; thread < 4; ++thread) {
    threads.emplace_back([&stream, number = numbers.data() + thread] {
      for (unsigned i = 0; i < 100; ++i) {
        cuda::launch<append_digit>({stream, 1, 1}, number, i);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  unsigned expected = 0;
  for (unsigned i = 0; i < 100; ++i) expected = expected * 31 + i;
  CHECK(read_back(numbers) == std::vector<unsigned>(4, expected));
}

TEST_CASE("stream priorities: lower numbers go first, and any number is accepted", "[streams]") {
  int least = 0, greatest = 0;
  REQUIRE(cudaDeviceGetStreamPriorityRange(&least, &greatest) == cudaSuccess);
  CHECK(greatest <= least);
  for (const int priority : {least, greatest}) {
    cudaStream_t stream = nullptr;
    REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, priority) == cudaSuccess);
    int seen = priority + 1;
    CHECK(cudaStreamGetPriority(stream, &seen) == cudaSuccess);
    CHECK(seen == priority);
    unsigned flags = 0;
    CHECK(cudaStreamGetFlags(stream, &flags) == cudaSuccess);
    CHECK(flags == cudaStreamNonBlocking);
    CHECK(cudaStreamDestroy(stream) == cudaSuccess);
  }
  // Out of range: brought back to the nearest priority.
  cudaStream_t stream = nullptr;
  REQUIRE(cudaStreamCreateWithPriority(&stream, cudaStreamDefault, greatest - 100) == cudaSuccess);
  int seen = greatest - 100;
  CHECK(cudaStreamGetPriority(stream, &seen) == cudaSuccess);
  CHECK(seen == greatest);
  CHECK(cudaStreamDestroy(stream) == cudaSuccess);
}

TEST_CASE("wrong flags for a stream are refused", "[streams]") {
  cudaStream_t stream = nullptr;
  CHECK(cudaStreamCreateWithFlags(&stream, 0x80) == cudaErrorInvalidValue);
  CHECK(cudaGetLastError() == cudaErrorInvalidValue);
}

}  // namespace
}  // namespace ddp::conformance
