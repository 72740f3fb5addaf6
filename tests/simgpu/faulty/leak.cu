// Memory, a stream and an event that are never given back. The program's result is right; the list
// at its end tells.
#include "common/cuda/buffer.hpp"
#include "common/cuda/check.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <bool gives_back>
bool result_is_right() {
  void* device = nullptr;
  void* pinned = nullptr;
  cudaStream_t stream = nullptr;
  cudaEvent_t event = nullptr;
  cuda::check(cudaMalloc(&device, 1024));
  cuda::check(cudaMallocHost(&pinned, 512));
  cuda::check(cudaStreamCreate(&stream));
  cuda::check(cudaEventCreate(&event));
  if (gives_back) {
    cuda::check(cudaEventDestroy(event));
    cuda::check(cudaStreamDestroy(stream));
    cuda::check(cudaFreeHost(pinned));
    cuda::check(cudaFree(device));
  }
  return true;
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<true>,
                           ddp::planted::result_is_right<false>);
}
