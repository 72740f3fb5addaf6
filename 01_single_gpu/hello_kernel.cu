// The smallest CUDA program that does something: y = a x + y, one thread an element.
//
// Memory: the device has its own. Buffers live there, and copies go there and back.
// Kernel: a function that many threads run at once; each finds its element from its indices.
// Stream: a queue. A launch returns at once; the device takes its work from the queue in order.

#include <cstddef>
#include <cstdio>
#include <span>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"

namespace cuda = ddp::cuda;

__global__ void axpy_kernel(float a, const float* x, float* y, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < count) y[i] = a * x[i] + y[i];  // the last block has threads to spare: they do nothing
}

int main() {
  std::vector<float> x(1000), y(1000, 1.0F);
  for (std::size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i);

  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> device_x(x.size()), device_y(y.size());
  cuda::upload(device_x.data(), std::span<const float>(x), stream);
  cuda::upload(device_y.data(), std::span<const float>(y), stream);
  const unsigned blocks = cuda::blocks_for(x.size(), 256);  // 4 blocks of 256 threads: 1024
  cuda::launch<axpy_kernel>({stream, blocks, 256}, 2.0F, device_x.data(), device_y.data(),
                            x.size());
  y = cuda::download(device_y.data(), y.size(), stream);

  for (std::size_t i = 0; i < y.size(); ++i) {
    if (y[i] == 2 * x[i] + 1) continue;
    std::printf("y[%zu] is %g, should be %g\n", i, y[i], 2 * x[i] + 1);
    return 1;
  }
  std::printf("all %zu elements of y = 2 x + 1 are right\n", y.size());
}
