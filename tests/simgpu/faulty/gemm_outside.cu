// A matrix product whose leading dimension takes it out of the buffer: the tail of a buffer is
// taken for a whole matrix.
#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/faulty/planted.hpp"

namespace ddp::planted {
namespace {

template <int leading>
bool result_is_right() {
  constexpr int size = 4, count = size * size;
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  const cuda::DeviceBuffer<float> input(count), output(count);
  const std::vector<float> ones(count, 1);
  cuda::upload<float>(input.data(), ones, stream);
  const float one = 1, zero = 0;
  cuda::check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, input.data(),
                          leading, input.data(), size, &zero, output.data(), size));
  return cuda::download(output.data(), count, stream) == std::vector<float>(count, 4);
}

}  // namespace
}  // namespace ddp::planted

int main(int argc, char** argv) {
  return ddp::planted::run(argc, argv, ddp::planted::result_is_right<4>,
                           ddp::planted::result_is_right<5>);
}
