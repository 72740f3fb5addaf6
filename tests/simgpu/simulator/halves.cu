// What the simulator makes of half precision beyond CUDA's rules.
#include <bit>
#include <cstdint>

#include "simgpu/include/simgpu/half_bits.h"
#include "tests/simgpu/conformance/gemm.hpp"

namespace ddp::simulator {
namespace {

// tests/simgpu/conformance has the right values; these are what this CPU's instructions give.
TEST_CASE("the conversions without instructions of the CPU give the same bits", "[half]") {
  unsigned wrong = 0;
  for (std::uint32_t bits = 0; bits < 65536; ++bits) {
    const auto half_bits = static_cast<std::uint16_t>(bits);
    const float value = simgpu::one_float_from_half_bits(half_bits);
    if (std::bit_cast<std::uint32_t>(simgpu::float_from_half_bits(half_bits)) !=
        std::bit_cast<std::uint32_t>(value)) {
      ++wrong;
    }
  }
  CHECK(wrong == 0);
  // Floats from everywhere; every half is among them, and every midpoint with its neighbours.
  const auto compare = [&](std::uint32_t bits) {
    const float value = std::bit_cast<float>(bits);
    if (simgpu::half_bits_from_float(value) != simgpu::half_bits_from_one_float(value)) ++wrong;
  };
  for (std::uint32_t step = 0; step < (1u << 20); ++step) {
    for (const std::uint32_t low : {0u, 1u, 4095u}) compare(step * 4096 + low);
  }
  CHECK(wrong == 0);
}

TEST_CASE("adding up in fp16 is not simulated, and refused", "[half]") {
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  const cuda::DeviceBuffer<half> data(12);
  const half one = 1;
  CHECK(cublasGemmEx(blas, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, data.data(), CUDA_R_16F, 2,
                     data.data() + 4, CUDA_R_16F, 2, &one, data.data() + 8, CUDA_R_16F, 2,
                     CUBLAS_COMPUTE_16F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_NOT_SUPPORTED);
}

TEST_CASE("fresh memory reads as NaN in halves too", "[half]") {
  const cuda::DeviceBuffer<half> halves(7);
  const cuda::DeviceBuffer<nv_bfloat16> bfloats(7);
  for (const half value : conformance::read_back(halves)) CHECK(__hisnan(value));
  for (const nv_bfloat16 value : conformance::read_back(bfloats)) CHECK(__hisnan(value));
}

}  // namespace
}  // namespace ddp::simulator
