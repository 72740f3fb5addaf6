// Each thread reads what its left neighbour wrote to shared memory. In ascending order of threads
// the neighbour has always been there already, so the missing barrier does no harm; in another
// order it does.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

constexpr unsigned threads = 64;

template <bool with_barrier>
__global__ void shift(int* values) {
  __shared__ int tile[threads];
  tile[threadIdx.x] = static_cast<int>(threadIdx.x) * 3;  // planted: somebody else reads this
  if constexpr (with_barrier) __syncthreads();
  values[threadIdx.x] = threadIdx.x == 0 ? 0 : tile[threadIdx.x - 1];
}

template <bool with_barrier>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> values(threads);
  cuda::launch<shift<with_barrier>>({stream, 1, threads}, values.data());
  const std::vector<int> seen = cuda::download(values.data(), threads, stream);
  for (int i = 1; i < static_cast<int>(threads); ++i) {
    if (seen[static_cast<std::size_t>(i)] != (i - 1) * 3) return false;
  }
  return true;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
