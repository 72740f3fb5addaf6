// All lanes of a warp vote, and the mask names the lower half only.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <bool whole>
__global__ void vote(unsigned* ballots) {
  ballots[threadIdx.x] = __ballot_sync(whole ? 0xffffffffU : 0x0000ffffU, 1);  // planted
}

template <bool whole>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<unsigned> ballots(32);
  cuda::launch<vote<whole>>({stream, 1, 32}, ballots.data());
  return cuda::download(ballots.data(), 32, stream) == std::vector<unsigned>(32, 0xffffffffU);
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
