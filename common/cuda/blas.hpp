#pragma once

#include <cublas_v2.h>
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstddef>
#include <type_traits>
#include <utility>

#include "common/cuda/buffer.hpp"
#include "common/cuda/check.hpp"
#include "common/cuda/wide.hpp"

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
    // Beside this flag the default: fp32 stays fp32, no TF32. With it partial sums of a product of
    // halves stay fp32 as well, where cuBLAS would add them up in the type of the result.
    check(cublasSetMathMode(handle_, CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION));
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

/// cuBLAS's name for an element's type.
template <class T>
constexpr cudaDataType data_type() {
  if constexpr (std::is_same_v<T, __half>) {
    return CUDA_R_16F;
  } else if constexpr (std::is_same_v<T, __nv_bfloat16>) {
    return CUDA_R_16BF;
  } else if constexpr (std::is_same_v<T, float>) {
    return CUDA_R_32F;
  } else {
    static_assert(std::is_same_v<T, double>);
    return CUDA_R_64F;
  }
}

/// cublasSgemm, cublasDgemm or, for halves, cublasGemmEx, with the arguments of cublasSgemm:
///
///   C (m, n) = alpha * op(A) (m, k) * op(B) (k, n) + beta * C, all column-major.
///
/// The factors are of one type. The product is of this type too, or fp32 for factors in half
/// precision, as their weights' gradients want it. Halves are multiplied and added up in fp32, and
/// a C in half precision is rounded once, at the end.
template <class In, class Out>
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t a_operation,
                    cublasOperation_t b_operation, int m, int n, int k, const Wide<In>* alpha,
                    const In* a, int lda, const In* b, int ldb, const Wide<In>* beta, Out* c,
                    int ldc) {
  static_assert(std::is_same_v<Out, In> || std::is_same_v<Out, Wide<In>>);
  if constexpr (std::is_same_v<In, float>) {
    return cublasSgemm(handle, a_operation, b_operation, m, n, k, alpha, a, lda, b, ldb, beta, c,
                       ldc);
  } else if constexpr (std::is_same_v<In, double>) {
    return cublasDgemm(handle, a_operation, b_operation, m, n, k, alpha, a, lda, b, ldb, beta, c,
                       ldc);
  } else {
    return cublasGemmEx(handle, a_operation, b_operation, m, n, k, alpha, a, data_type<In>(), lda,
                        b, data_type<In>(), ldb, beta, c, data_type<Out>(), ldc, CUBLAS_COMPUTE_32F,
                        CUBLAS_GEMM_DEFAULT);
  }
}

}  // namespace ddp::cuda
