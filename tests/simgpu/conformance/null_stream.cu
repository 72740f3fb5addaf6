// The legacy null stream: it waits for all blocking streams of the device and they for it. Streams
// created with cudaStreamNonBlocking are exempt.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

constexpr cudaStream_t null_stream = nullptr;

// A stream that keeps the null stream's rules; cuda::Stream does not.
struct BlockingStream {
  BlockingStream() { cuda::check(cudaStreamCreate(&stream)); }
  BlockingStream(const BlockingStream&) = delete;
  BlockingStream& operator=(const BlockingStream&) = delete;
  ~BlockingStream() { cudaStreamDestroy(stream); }
  operator cudaStream_t() const { return stream; }
  cudaStream_t stream = nullptr;
};

__global__ void set(int* value, int to) { *value = to; }

__global__ void copy_and_add(int* to, const int* from, int more) { *to = *from + more; }

TEST_CASE("the null stream waits for a blocking stream", "[null stream]") {
  const BlockingStream stream;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  Gate gate(stream);
  cuda::launch<set>({stream, 1, 1}, values.data(), 1);
  cuda::launch<copy_and_add>({null_stream, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(stays_pending(null_stream));
  gate.open();
  CHECK(read_back(values)[1] == 2);
  (void)cudaGetLastError();
}

TEST_CASE("a blocking stream waits for the null stream", "[null stream]") {
  const BlockingStream stream;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  Gate gate(null_stream);
  cuda::launch<set>({null_stream, 1, 1}, values.data(), 1);
  cuda::launch<copy_and_add>({stream, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(stays_pending(stream));
  gate.open();
  CHECK(read_back(values)[1] == 2);
  (void)cudaGetLastError();
}

TEST_CASE("two blocking streams are ordered by null-stream work between them", "[null stream]") {
  const BlockingStream first, second;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(3);
  Gate gate(first);
  cuda::launch<set>({first, 1, 1}, values.data(), 1);
  cuda::launch<copy_and_add>({null_stream, 1, 1}, values.data() + 1, values.data(), 1);
  cuda::launch<copy_and_add>({second, 1, 1}, values.data() + 2, values.data() + 1, 1);
  CHECK(stays_pending(second));
  gate.open();
  CHECK(read_back(values) == std::vector<int>{1, 2, 3});
  (void)cudaGetLastError();
}

TEST_CASE("without null-stream work between them blocking streams do not wait", "[null stream]") {
  const BlockingStream held, free;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  Gate gate(held);
  cuda::launch<set>({free, 1, 1}, value.data(), 4);
  CHECK(cudaStreamSynchronize(free) == cudaSuccess);  // hangs if it waited
}

TEST_CASE("a non-blocking stream does not wait for the null stream", "[null stream]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  Gate gate(null_stream);
  cuda::launch<set>({stream, 1, 1}, value.data(), 4);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);  // hangs if it waited
  CHECK(cudaStreamQuery(null_stream) == cudaErrorNotReady);
  (void)cudaGetLastError();
}

TEST_CASE("the null stream does not wait for a non-blocking stream", "[null stream]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  Gate gate(stream);
  cuda::launch<set>({null_stream, 1, 1}, value.data(), 4);
  CHECK(cudaStreamSynchronize(null_stream) == cudaSuccess);  // hangs if it waited
  CHECK(cudaStreamQuery(stream) == cudaErrorNotReady);
  (void)cudaGetLastError();
}

TEST_CASE("synchronous copies and memsets are null-stream work", "[null stream]") {
  const BlockingStream stream;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  keep_busy(stream, 20);
  cuda::launch<set>({stream, 1, 1}, value.data(), 7);
  int seen = -1;
  CHECK(cudaMemcpy(&seen, value.data(), sizeof seen, cudaMemcpyDeviceToHost) == cudaSuccess);
  CHECK(seen == 7);

  keep_busy(stream, 20);
  cuda::launch<set>({stream, 1, 1}, value.data(), 7);
  CHECK(cudaMemset(value.data(), 0, sizeof(int)) == cudaSuccess);
  CHECK(read_back(value).front() == 0);
}

TEST_CASE("an event recorded in the null stream comes after the work of blocking streams",
          "[null stream]") {
  const BlockingStream stream;
  const cuda::Stream waiting;
  const cuda::Event event;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  Gate gate(stream);
  cuda::launch<set>({stream, 1, 1}, values.data(), 1);
  event.record(null_stream);
  cuda::wait_for(waiting, event);
  cuda::launch<copy_and_add>({waiting, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  CHECK(stays_pending(waiting));
  gate.open();
  CHECK(read_back(values)[1] == 2);
  (void)cudaGetLastError();
}

TEST_CASE("many streams and the null stream in turns", "[null stream]") {
  const BlockingStream first, second;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(3);
  constexpr int rounds = 50;
  int* const data = values.data();
  for (int round = 0; round < rounds; ++round) {
    cuda::launch<copy_and_add>({first, 1, 1}, data + 1, data, 1);
    cuda::launch<copy_and_add>({second, 1, 1}, data + 2, data, 2);
    cuda::launch<copy_and_add>({null_stream, 1, 1}, data, data + 1 + round % 2, 1);
  }
  // An even round adds 1 + 1, an odd one 2 + 1.
  CHECK(read_back(values).front() == rounds / 2 * 5);
}

}  // namespace
}  // namespace ddp::conformance
