// How arguments reach a kernel: converted to its parameter types, and copied at the call.
#include "common/cuda/launch.hpp"

#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {
namespace {

struct Settings {
  int count;
  double scale;
  const float* input;
};

struct Received {
  float real;
  double wide;
  std::size_t large;
  int is_null;
  float element;
  int count;
  double scale;
  float input;
};

__global__ void receive(Received* received, float real, double wide, std::size_t large,
                        const int* pointer, const float* elements, Settings settings) {
  received->real = real;
  received->wide = wide;
  received->large = large;
  received->is_null = pointer == nullptr ? 1 : 0;
  received->element = elements[1];
  received->count = settings.count;
  received->scale = settings.scale;
  received->input = settings.input[2];
}

TEST_CASE("a launch converts its arguments to the kernel's parameter types", "[launch]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> elements = on_device<float>({1.5F, 2.5F, 3.5F});
  const cuda::DeviceBuffer<Received> received(1);
  // int to float, float to double, int to size_t, nullptr to const int*, float* to const float*.
  cuda::launch<receive>({stream, 1, 1}, received.data(), 3, 0.25F, 7, nullptr, elements.data(),
                        Settings{4, 0.125, elements.data()});
  const Received seen = read_back(received).front();
  CHECK(seen.real == 3.0F);
  CHECK(seen.wide == 0.25);
  CHECK(seen.large == 7);
  CHECK(seen.is_null == 1);
  CHECK(seen.element == 2.5F);
  CHECK(seen.count == 4);
  CHECK(seen.scale == 0.125);
  CHECK(seen.input == 3.5F);
}

struct Table {
  int values[256];
};

__global__ void sum_table(int* sum, Table table, int more) {
  int total = more;
  for (const int value : table.values) total += value;
  *sum = total;
}

TEST_CASE("a launch copies its arguments: changing them afterwards changes nothing", "[launch]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> sum = zeros_on_device<int>(1);
  Table table{};
  for (int& value : table.values) value = 3;
  int more = 5;
  Gate gate(stream);
  cuda::launch<sum_table>({stream, 1, 1}, sum.data(), table, more);
  for (int& value : table.values) value = -1;
  more = -1;
  gate.open();
  CHECK(read_back(sum).front() == 3 * 256 + 5);
}

TEST_CASE("a large temporary argument outlives its statement", "[launch]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> sum = zeros_on_device<int>(1);
  Gate gate(stream);
  const auto make_table = [] {
    Table table{};
    table.values[255] = 41;
    return table;
  };
  cuda::launch<sum_table>({stream, 1, 1}, sum.data(), make_table(), 1);
  gate.open();
  CHECK(read_back(sum).front() == 42);
}

template <class T, int factor>
__global__ void multiply(T* values, std::size_t count) {
  const std::size_t index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) values[index] *= factor;
}

TEST_CASE("kernel templates are launched through a pointer to the function", "[launch]") {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> floats = on_device<float>({1, 2, 3});
  const cuda::DeviceBuffer<double> doubles = on_device<double>({1, 2, 3});
  cudaLaunchConfig_t config{};
  config.gridDim = 1;
  config.blockDim = 3;
  config.stream = stream;
  void (*const kernel)(float*, std::size_t) = multiply<float, 2>;
  CHECK(cudaLaunchKernelEx(&config, kernel, floats.data(), std::size_t{3}) == cudaSuccess);
  const auto wide_kernel = multiply<double, 5>;
  CHECK(cudaLaunchKernelEx(&config, wide_kernel, doubles.data(), std::size_t{3}) == cudaSuccess);
  CHECK(read_back(floats) == std::vector<float>{2, 4, 6});
  CHECK(read_back(doubles) == std::vector<double>{5, 10, 15});
}

TEST_CASE("a kernel guards the rest of its last block", "[launch]") {
  const cuda::Stream stream;
  for (const std::size_t count : {1U, 255U, 256U, 257U, 1000U}) {
    std::vector<int> expected(count + 4, 7);  // four guard cells stay
    const cuda::DeviceBuffer<int> values = on_device(expected);
    cuda::launch<multiply<int, 3>>({stream, cuda::blocks_for(count, 256), 256}, values.data(),
                                   count);
    for (std::size_t i = 0; i < count; ++i) expected[i] = 21;
    CHECK(read_back(values) == expected);
  }
}

TEST_CASE("a launch over an empty range does nothing through the helper", "[launch]") {
  const cuda::Stream stream;
  CHECK(cuda::blocks_for(0, 256) == 0);
  cuda::launch<multiply<int, 3>>({stream, 0, 256}, nullptr, 0);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  CHECK(cudaGetLastError() == cudaSuccess);
}

}  // namespace
}  // namespace ddp::conformance
