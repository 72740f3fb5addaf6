// One stream computes a value in steps, another one reads it. Without the wait the second stream
// reads whatever is there when it comes by.
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

__global__ void set(int* value, int to) {
  *value = to;  // planted: the other stream may not have waited for this
}

__global__ void copy(int* to, const int* from) { *to = *from; }

template <bool with_wait>
bool result_is_right() {
  const cuda::Stream producer, consumer;
  const cuda::Event produced;
  const cuda::DeviceBuffer<int> values(2);
  cuda::clear_async(values.data(), 2, producer);
  producer.synchronize();

  for (int i = 1; i <= 20; ++i) cuda::launch<set>({producer, 1, 1}, values.data(), i);
  produced.record(producer);
  if (with_wait) cuda::wait_for(consumer, produced);
  cuda::launch<copy>({consumer, 1, 1}, values.data() + 1, values.data());
  return cuda::download(values.data() + 1, 1, consumer).front() == 20;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
