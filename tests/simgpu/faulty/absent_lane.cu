// A block of 40 threads has 8 lanes in its second warp. Reading lane 8 and up of it gives garbage
// on a GPU.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <bool careful>
__global__ void last_lane(int* values) {
  const unsigned lanes = threadIdx.x < 32 ? 32 : blockDim.x - 32;
  const unsigned mask = careful && lanes < 32 ? (1U << lanes) - 1 : 0xffffffffU;
  const int source = careful ? static_cast<int>(lanes) - 1 : 31;
  values[threadIdx.x] = __shfl_sync(mask, static_cast<int>(threadIdx.x), source);  // planted
}

template <bool careful>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> values(40);
  cuda::launch<last_lane<careful>>({stream, 1, 40}, values.data());
  const std::vector<int> seen = cuda::download(values.data(), 40, stream);
  for (std::size_t i = 0; i < 40; ++i) {
    if (seen[i] != (i < 32 ? 31 : 39)) return false;
  }
  return true;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
