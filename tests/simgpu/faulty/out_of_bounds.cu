// 1000 elements, four blocks of 256 threads: the last 24 threads have no element.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <bool guarded>
__global__ void fill(float* values, unsigned count) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (guarded && index >= count) return;
  values[index] = 1;  // planted
}

template <bool guarded>
bool result_is_right() {
  constexpr unsigned count = 1000;
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> values(count);
  cuda::launch<fill<guarded>>({stream, cuda::blocks_for(count, 256), 256}, values.data(), count);
  return cuda::download(values.data(), count, stream) == std::vector<float>(count, 1);
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
