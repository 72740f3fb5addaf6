// The host reads a result in pinned memory; it must wait for the stream that computes it.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

__global__ void set(int* value, int to) {
  *value = to;  // planted: the host may not have waited for this
}

template <bool with_wait>
bool result_is_right() {
  const cuda::Stream stream;
  const cuda::PinnedBuffer<int> result(1);
  result[0] = 0;
  for (int i = 1; i <= 20; ++i) cuda::launch<set>({stream, 1, 1}, result.data(), i);
  if (with_wait) stream.synchronize();
  return *static_cast<volatile int*>(result.data()) == 20;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
