// Half of the threads of a block wait at one barrier, half at another. On a GPU that is undefined;
// it may pass, hang or mix the two up.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <bool together>
__global__ void sum_halves(int* sums) {
  __shared__ int tile[64];
  tile[threadIdx.x] = 1;
  if constexpr (together) {
    __syncthreads();
  } else if (threadIdx.x < 32) {
    __syncthreads();  // planted
  } else {
    __syncthreads();  // the other one
  }
  if (threadIdx.x % 32 != 0) return;
  int sum = 0;
  for (unsigned i = 0; i < 32; ++i) sum += tile[(threadIdx.x + 32 + i) % 64];
  sums[threadIdx.x / 32] = sum;
}

template <bool together>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> sums(2);
  cuda::launch<sum_halves<together>>({stream, 1, 64}, sums.data());
  return cuda::download(sums.data(), 2, stream) == std::vector<int>{32, 32};
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
