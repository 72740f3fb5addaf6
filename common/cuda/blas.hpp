#pragma once

#include <cublas_v2.h>

#include <cstddef>
#include <utility>

#include "common/cuda/buffer.hpp"
#include "common/cuda/check.hpp"

namespace ddp::cuda {

/// A cuBLAS handle bound to one stream, with a workspace of its own: with a shared or growing
/// workspace cuBLAS may choose another algorithm from run to run, and results would not repeat to
/// the bit. (cublasSetStream resets the workspace, so it comes first.)
class Blas {
 public:
  explicit Blas(cudaStream_t stream) : workspace_(workspace_bytes) {
    check(cublasCreate(&handle_));
    check(cublasSetStream(handle_, stream));
    check(cublasSetWorkspace(handle_, workspace_.data(), workspace_.size()));
    check(cublasSetMathMode(handle_, CUBLAS_DEFAULT_MATH));  // fp32 stays fp32: no TF32
  }
  Blas(const Blas&) = delete;
  Blas& operator=(const Blas&) = delete;
  ~Blas() { cublasDestroy(handle_); }

  operator cublasHandle_t() const { return handle_; }

 private:
  // What NVIDIA recommends for Hopper; 4 MiB is enough before it.
  static constexpr std::size_t workspace_bytes = std::size_t{32} << 20;
  DeviceBuffer<unsigned char> workspace_;
  cublasHandle_t handle_ = nullptr;
};

}  // namespace ddp::cuda
