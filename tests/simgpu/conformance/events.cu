// Events order streams: a stream that waits for an event waits for what was before its record.
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

__global__ void set(int* value, int to) { *value = to; }

__global__ void copy_and_add(int* to, const int* from, int more) { *to = *from + more; }

TEST_CASE("a stream that waits for an event sees the work before it", "[events]") {
  const cuda::Stream producer, consumer;
  const cuda::Event ready;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  keep_busy(producer, 10);
  cuda::launch<set>({producer, 1, 1}, values.data(), 41);
  ready.record(producer);
  cuda::wait_for(consumer, ready);
  cuda::launch<copy_and_add>({consumer, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(cudaStreamSynchronize(consumer) == cudaSuccess);
  CHECK(read_back(values)[1] == 42);
}

TEST_CASE("an event waits for nothing that came after its record", "[events]") {
  const cuda::Stream producer, consumer;
  const cuda::Event ready;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  cuda::launch<set>({producer, 1, 1}, value.data(), 1);
  ready.record(producer);
  Gate gate(producer);
  cuda::wait_for(consumer, ready);
  CHECK(cudaStreamSynchronize(consumer) == cudaSuccess);  // hangs if it waited for the gate
  CHECK(cudaEventQuery(ready) == cudaSuccess);
}

TEST_CASE("two streams pass a value back and forth", "[events]") {
  const cuda::Stream first, second;
  const cuda::Event first_done, second_done;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    cuda::launch<copy_and_add>({first, 1, 1}, values.data(), values.data() + 1, 1);
    first_done.record(first);
    cuda::wait_for(second, first_done);
    cuda::launch<copy_and_add>({second, 1, 1}, values.data() + 1, values.data(), 1);
    second_done.record(second);
    cuda::wait_for(first, second_done);
  }
  CHECK(read_back(values) == std::vector<int>{2 * rounds - 1, 2 * rounds});
}

TEST_CASE("an event that was never recorded is no wait", "[events]") {
  const cuda::Stream stream;
  const cuda::Event event;
  CHECK(cudaEventQuery(event) == cudaSuccess);
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(cudaStreamWaitEvent(stream, event, 0) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST_CASE("a wait is for the record before it, even if the event is recorded again elsewhere",
          "[events]") {
  const cuda::Stream held, idle, waiting;
  const cuda::Event event;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  Gate gate(held);
  cuda::launch<set>({held, 1, 1}, values.data(), 5);
  event.record(held);
  cuda::wait_for(waiting, event);
  event.record(idle);  // is reached at once
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  cuda::launch<copy_and_add>({waiting, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(stays_pending(waiting));
  gate.open();
  CHECK(read_back(values)[1] == 6);
  (void)cudaGetLastError();
}

TEST_CASE("a wait is not for a record that comes after it", "[events]") {
  const cuda::Stream held, idle, waiting;
  const cuda::Event event;
  event.record(idle);
  Gate gate(held);
  cuda::wait_for(waiting, event);
  event.record(held);
  CHECK(cudaStreamSynchronize(waiting) == cudaSuccess);  // hangs if it waited for the gate
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);     // a query looks at the last record
  gate.open();
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("one event holds back many streams, and one stream waits for many events", "[events]") {
  constexpr std::size_t streams = 6;
  const cuda::Stream source, sink;
  const cuda::Event start;
  const std::vector<cuda::Stream> middle(streams);
  const std::vector<cuda::Event> done(streams);
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(streams + 1);
  keep_busy(source, 10);
  cuda::launch<set>({source, 1, 1}, values.data(), 10);
  start.record(source);
  for (std::size_t i = 0; i < streams; ++i) {
    cuda::wait_for(middle[i], start);
    cuda::launch<copy_and_add>({middle[i], 1, 1}, values.data() + 1 + i, values.data(),
                               static_cast<int>(i));
    done[i].record(middle[i]);
    cuda::wait_for(sink, done[i]);
  }
  const cuda::PinnedBuffer<int> host(streams + 1);
  cuda::copy_async(host.data(), values.data(), streams + 1, sink);
  CHECK(cudaStreamSynchronize(sink) == cudaSuccess);
  for (std::size_t i = 0; i < streams; ++i) CHECK(host[i + 1] == 10 + static_cast<int>(i));
}

TEST_CASE("cudaEventQuery and cudaEventSynchronize follow the work before the record", "[events]") {
  const cuda::Stream stream;
  const cuda::Event event;
  const cuda::DeviceBuffer<int> value = zeros_on_device<int>(1);
  const cuda::PinnedBuffer<int> host(1);
  Gate gate(stream);
  cuda::launch<set>({stream, 1, 1}, value.data(), 3);
  cuda::copy_async(host.data(), value.data(), 1, stream);
  event.record(stream);
  CHECK(cudaEventQuery(event) == cudaErrorNotReady);
  gate.open();
  CHECK(cudaEventSynchronize(event) == cudaSuccess);
  CHECK(host[0] == 3);
  CHECK(cudaEventQuery(event) == cudaSuccess);
  (void)cudaGetLastError();
}

TEST_CASE("an event may be destroyed while a stream waits for it", "[events]") {
  const cuda::Stream held, waiting;
  const cuda::DeviceBuffer<int> values = zeros_on_device<int>(2);
  Gate gate(held);
  cuda::launch<set>({held, 1, 1}, values.data(), 8);
  {
    const cuda::Event event;
    event.record(held);
    cuda::wait_for(waiting, event);
  }
  cuda::launch<copy_and_add>({waiting, 1, 1}, values.data() + 1, values.data(), 1);
  CHECK(stays_pending(waiting));
  gate.open();
  CHECK(read_back(values)[1] == 9);
  (void)cudaGetLastError();
}

TEST_CASE("a stream that waits for an event of its own goes on", "[events]") {
  const cuda::Stream stream;
  const cuda::Event event;
  event.record(stream);
  cuda::wait_for(stream, event);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

}  // namespace
}  // namespace ddp::conformance
