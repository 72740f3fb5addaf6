// All blocks write to one cell; the greatest number is to stay. Blocks have no order, so a plain
// write leaves that of any block.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

constexpr unsigned blocks = 50;

template <bool atomically>
__global__ void keep_greatest(int* greatest) {
  if (threadIdx.x != 0) return;
  const int mine = static_cast<int>(blockIdx.x);
  if constexpr (atomically) {
    atomicMax(greatest, mine);
  } else {
    *greatest = mine;  // planted
  }
}

template <bool atomically>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<int> greatest(1);
  cuda::clear_async(greatest.data(), 1, stream);
  cuda::launch<keep_greatest<atomically>>({stream, blocks, 32}, greatest.data());
  return cuda::download(greatest.data(), 1, stream).front() == static_cast<int>(blocks) - 1;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
