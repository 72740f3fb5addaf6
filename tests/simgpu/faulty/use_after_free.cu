// A kernel reads a buffer that was freed before the launch.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

__global__ void copy(float* to, const float* from) {
  to[threadIdx.x] = from[threadIdx.x];  // planted
}

template <bool keeps_buffer>
bool result_is_right() {
  constexpr unsigned count = 100;
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> output(count);
  cuda::DeviceBuffer<float> input(count);
  cuda::clear_async(input.data(), count, stream);
  const float* const data = input.data();
  if (!keeps_buffer) {
    const cuda::DeviceBuffer<float> dropped = std::move(input);
  }
  cuda::launch<copy>({stream, 1, count}, output.data(), data);
  return cuda::download(output.data(), count, stream) == std::vector<float>(count, 0);
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
