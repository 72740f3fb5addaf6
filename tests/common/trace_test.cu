#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "common/cuda/tracer.hpp"
#include "tests/support/catch.hpp"

namespace ddp {
namespace {

template <class T>
struct Twice {
  static __device__ T value(T x) { return 2 * x; }
};

template <class T, class Function>
__global__ void apply_kernel(T* values, int count) {
  const unsigned block = blockIdx.y * gridDim.x + blockIdx.x;
  const int i = static_cast<int>(block * blockDim.x + threadIdx.x);
  if (i < count) values[i] = Function::value(values[i]);
}

// Each turn needs the one before: no device does a million of them within 100 microseconds.
__global__ void long_kernel(unsigned* value, unsigned turns) {
  unsigned number = *value;
  for (unsigned i = 0; i < turns; ++i) number = number * 1664525U + 1013904223U;
  *value = number;
}

using Record = cuda::Tracer::Record;

// Keeps a stream busy until open() is called.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    static constexpr auto wait = [](void* open) {
      while (!static_cast<std::atomic<bool>*>(open)->load()) std::this_thread::yield();
    };
    cuda::check(cudaLaunchHostFunc(stream, wait, &open_));
  }
  ~Gate() { open(); }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_ = false;
};

TEST_CASE("Nobody is told of anything without a tracer, nor a tracer of what is outside a step") {
  CHECK(cuda::current_tracer == nullptr);
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  CHECK_FALSE(static_cast<bool>(cuda::Timed(stream)));
  {
    const cuda::Range step("step", 1);
    cuda::clear_async(values.data(), 8, stream);  // before there is a tracer
  }
  cuda::Tracer tracer(100);
  cuda::clear_async(values.data(), 8, stream);
  {
    const cuda::Range range("evaluate");  // knows no step
    cuda::clear_async(values.data(), 8, stream);
  }
  tracer.read_all();
  CHECK(tracer.records().empty());
  CHECK(tracer.omitted() == 0);
}

TEST_CASE("A tracer says when its time began, by the clock that the ranks of a host share") {
  const auto now = [] {
    const auto time = std::chrono::system_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
  };
  const auto before = now();
  const cuda::Tracer tracer(100);
  const auto after = now();
  CHECK(before <= tracer.begin());
  CHECK(tracer.begin() <= after);
}

TEST_CASE("A tracer notes name, kind, sizes, bytes, range and step of each operation, in order") {
  const cuda::Stream stream, other;
  const cuda::Blas blas(stream);
  const cuda::DeviceBuffer<float> a(6), b(15), c(10);
  const cuda::DeviceBuffer<double> d(4);
  const cuda::PinnedBuffer<float> host(6);
  for (int i = 0; i < 6; ++i) host[static_cast<std::size_t>(i)] = 1;
  std::vector<float> pageable(10);
  cuda::Tracer tracer(100);
  cuda::name_stream(other, "loader");
  cuda::name_stream(stream, "compute");
  {
    const cuda::Range step("step", 7);
    {
      const cuda::Range load("load", 8);
      cuda::copy_async(a.data(), host.data(), 6, other);
      other.synchronize();
    }
    cuda::clear_async(c.data(), 10, stream);
    {
      const cuda::Range forward("forward");
      {
        const cuda::Range layer("layers.0");
        cuda::launch<apply_kernel<float, Twice<float>>>(
            {.stream = stream, .grid = dim3(3, 2), .block = 32, .bytes_moved = 48}, a.data(), 6);
      }
      const cuda::Range layer("layers.1");
      cuda::Timed timed(blas);
      CHECK(static_cast<bool>(timed));
      timed.end(cuda::product_operation(2, 5, 3, sizeof(float)));
    }
    cuda::copy_async(b.data(), a.data(), 6, stream);
    cuda::copy_async(pageable.data(), c.data(), 10, stream);
    cuda::clear_async(d.data(), 0, stream);  // nothing to do:
    cuda::launch<apply_kernel<double, Twice<double>>>({stream, 0, 32}, d.data(), 0);  // no record
  }
  tracer.read_all();

  CHECK(tracer.rows() == std::vector<std::string>{"loader", "compute"});
  struct Expected {
    int row;
    const char *kind, *name, *range;
    std::int64_t step;
    std::size_t bytes;
    double flops;
  };
  const std::vector<Expected> expected = {
      {0, "copy", "copy host to device", "load", 8, 24, 0},
      {1, "clear", "clear", "", 7, 40, 0},
      {1, "kernel", "apply_kernel<float, Twice<float>>", "forward/layers.0", 7, 48, 0},
      // 2 * 2 * 5 * 3 operations on 6 + 15 + 10 floats
      {1, "product", "cublasSgemm", "forward/layers.1", 7, 124, 60},
      {1, "copy", "copy device to device", "", 7, 24, 0},
      {1, "copy", "copy device to host", "", 7, 40, 0},
  };
  const std::vector<Record>& records = tracer.records();
  REQUIRE(records.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    INFO("record " << i);
    CHECK(records[i].row == expected[i].row);
    CHECK(std::string(records[i].operation.kind) == expected[i].kind);
    CHECK(*records[i].name == expected[i].name);
    CHECK(*records[i].range == expected[i].range);
    CHECK(records[i].step == expected[i].step);
    CHECK(records[i].operation.bytes == expected[i].bytes);
    CHECK(records[i].operation.flops == expected[i].flops);
    CHECK(records[i].start >= 0);
    CHECK(records[i].seconds >= 0);
    if (i > 1) CHECK(records[i].start >= records[i - 1].start + records[i - 1].seconds - 1e-9);
  }
  CHECK(records[2].operation.grid.x == 3);
  CHECK(records[2].operation.grid.y == 2);
  CHECK(records[2].operation.block.x == 32);
  CHECK(records[3].operation.m == 2);
  CHECK(records[3].operation.n == 5);
  CHECK(records[3].operation.k == 3);
  CHECK(cuda::product_operation(1, 1, 1, sizeof(double)).name == std::string("cublasDgemm"));
  CHECK(pageable == std::vector<float>(10));
}

TEST_CASE("The host never waits for a traced operation before it asks for all") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer tracer(100);
  Gate gate(stream);
  for (std::int64_t step = 1; step <= 3; ++step) {  // a new step looks for what has ended
    const cuda::Range range("step", step);
    cuda::clear_async(values.data(), 8, stream);
  }
  tracer.read_done();
  CHECK(tracer.records().empty());  // and we are here, although the device stands still
  gate.open();
  tracer.read_all();
  REQUIRE(tracer.records().size() == 3);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(tracer.records()[i].step == static_cast<std::int64_t>(i) + 1);
  }
}

TEST_CASE("A stream that stands still keeps nobody from reading another") {
  const cuda::Stream first, second;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer tracer(100);
  Gate gate(first);
  const cuda::Range range("step", 1);
  cuda::clear_async(values.data(), 4, first);
  cuda::clear_async(values.data() + 4, 4, second);
  second.synchronize();
  tracer.read_done();
  REQUIRE(tracer.records().size() == 1);
  CHECK(tracer.rows()[static_cast<std::size_t>(tracer.records()[0].row)] == "stream 1");
  gate.open();
  tracer.read_all();
  CHECK(tracer.records().size() == 2);
}

TEST_CASE("What takes longer has the longer time, and what comes later the later start") {
  // The device sleeps 20 ms between the first event and the second: not less, and in this order.
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer tracer(100);
  const cuda::Range range("step", 1);
  cuda::clear_async(values.data(), 8, stream);
  cuda::Timed timed(stream);
  cuda::check(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr));
  timed.end({.kind = "kernel", .name = "sleep"});
  cuda::clear_async(values.data(), 8, stream);
  tracer.read_all();
  const std::vector<Record>& records = tracer.records();
  REQUIRE(records.size() == 3);
  CHECK(records[1].seconds >= 0.0199);
  CHECK(records[2].start - records[0].start >= 0.0199);
  CHECK(records[2].start >= records[1].start + records[1].seconds - 1e-9);
}

TEST_CASE("The time of a launch, a copy and a clear is that of the work between the events") {
  const cuda::Stream stream;
  constexpr std::size_t many = std::size_t{64} << 20;  // bytes: none moves 10 TB in a second
  const cuda::DeviceBuffer<std::byte> from(many), to(many);
  const cuda::DeviceBuffer<unsigned> value(1);
  cuda::Tracer tracer(100);
  const cuda::Range range("step", 1);
  cuda::clear_async(value.data(), 1, stream);
  cuda::launch<long_kernel>({stream, 1, 1}, value.data(), 1'000'000U);
  cuda::clear_async(from.data(), many, stream);
  cuda::copy_async(to.data(), from.data(), many, stream);
  tracer.read_all();
  const std::vector<Record>& records = tracer.records();
  REQUIRE(records.size() == 4);
  CHECK(records[1].seconds >= 100e-6);
  CHECK(records[2].seconds >= 6e-6);
  CHECK(records[3].seconds >= 6e-6);
}

TEST_CASE("After the limit operations are counted, not kept") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer tracer(3);
  const cuda::Range range("step", 1);
  for (int i = 0; i < 5; ++i) cuda::clear_async(values.data(), 8, stream);
  tracer.read_all();
  CHECK(tracer.records().size() == 3);
  CHECK(tracer.omitted() == 2);
}

TEST_CASE("A tracer puts back the one before it; ranges belong to their thread") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer outer(100);
  const cuda::Range range("step", 1);
  {
    cuda::Tracer inner(100);
    CHECK(cuda::current_tracer == &inner);
    cuda::clear_async(values.data(), 8, stream);
    inner.read_all();
    CHECK(inner.records().size() == 1);
  }
  CHECK(cuda::current_tracer == &outer);
  std::thread([&] {
    cuda::clear_async(values.data(), 4, stream);  // no step is known here
    const cuda::Range load("load", 2);
    cuda::clear_async(values.data(), 4, stream);
  }).join();
  outer.read_all();
  REQUIRE(outer.records().size() == 1);
  CHECK(outer.records()[0].step == 2);
  CHECK(*outer.records()[0].range == "load");
}

TEST_CASE("An operation that fails leaves the trace whole") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(8);
  cuda::Tracer tracer(100);
  const cuda::Range range("step", 1);
  CHECK_THROWS(
      cuda::launch<apply_kernel<float, Twice<float>>>({stream, 1, 2000}, values.data(), 8));
  cudaGetLastError();
  cuda::clear_async(values.data(), 8, stream);
  tracer.read_all();
  REQUIRE(tracer.records().size() == 1);
  CHECK(*tracer.records()[0].name == "clear");
}

TEST_CASE("Names of kernels as compilers write them") {
  using cuda::kernel_name;
  CHECK(kernel_name(
            "void ddp::cuda::launch(const LaunchConfig&, const Args& ...) [with auto Kernel "
            "= ddp::sgd_kernel<float>; Args = {ddp::Pack<float>*, int}]") == "sgd_kernel<float>");
  CHECK(
      kernel_name("... [with auto Kernel = ddp::bias_activation_kernel<float, ddp::Relu<float> >; "
                  "Args = {}]") == "bias_activation_kernel<float, Relu<float>>");
  CHECK(kernel_name("... [with auto Kernel = ddp::{anonymous}::probe; Args = {}]") == "probe");
  CHECK(kernel_name("... [Kernel = &ddp::(anonymous namespace)::probe<2>, Args = <int>]") ==
        "probe<2>");
  CHECK(kernel_name("... [with auto Kernel = nothing]") == "nothing");
  CHECK(kernel_name("copy host to device") == "copy host to device");
}

TEST_CASE("Device memory is counted to the byte, and its peak") {
  const std::size_t before = cuda::device_bytes();
  cuda::restart_peak_device_bytes();
  CHECK(cuda::peak_device_bytes() == before);
  {
    const cuda::DeviceBuffer<float> floats(3);
    {
      cuda::DeviceBuffer<double> doubles(5);
      CHECK(cuda::device_bytes() == before + 52);
      const cuda::DeviceBuffer<double> moved = std::move(doubles);
      CHECK(cuda::device_bytes() == before + 52);
    }
    const cuda::DeviceBuffer<float> none(0), never;
    const cuda::PinnedBuffer<float> on_the_host(100);
    CHECK(cuda::device_bytes() == before + 12);
  }
  CHECK(cuda::device_bytes() == before);
  CHECK(cuda::peak_device_bytes() == before + 52);
  cuda::restart_peak_device_bytes();
  CHECK(cuda::peak_device_bytes() == before);
}

}  // namespace
}  // namespace ddp
