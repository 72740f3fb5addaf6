// A stream computes gradients, another one reduces them. Without the wait NCCL takes whatever is
// there. (One rank is enough to show it.)
#include <nccl.h>

#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

__global__ void set(int* value, int to) {
  *value = to;  // planted: the communication stream may not have waited for this
}

template <bool with_wait>
bool result_is_right() {
  ncclUniqueId id{};
  ncclComm_t comm = nullptr;
  if (ncclGetUniqueId(&id) != ncclSuccess) return false;
  if (ncclCommInitRank(&comm, 1, id, 0) != ncclSuccess) return false;
  int result = -1;
  {
    const cuda::Stream compute, communication;
    const cuda::Event computed;
    const cuda::DeviceBuffer<int> values(2);
    cuda::clear_async(values.data(), 2, compute);
    compute.synchronize();

    for (int i = 1; i <= 20; ++i) cuda::launch<set>({compute, 1, 1}, values.data(), i);
    computed.record(compute);
    if (with_wait) cuda::wait_for(communication, computed);
    ncclAllReduce(values.data(), values.data() + 1, 1, ncclInt32, ncclSum, comm, communication);
    result = cuda::download(values.data() + 1, 1, communication).front();
  }
  ncclCommDestroy(comm);
  return result == 20;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
