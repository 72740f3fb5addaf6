// cuBLAS's products on a CBLAS library, which is column-major too: one call maps to one call. What
// is given in halves is multiplied in floats, which hold a product of two halves exactly.

#include <cblas.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <vector>

#include "cublas.hpp"
#include "half_arrays.hpp"
#include "memory.hpp"
#include "sanitizer.hpp"
#include "stream.hpp"

namespace simgpu {
namespace {

/// A column-major matrix in device memory.
template <class Pointer>
struct Matrix {
  Pointer data;
  cudaDataType type;
  int rows, columns, ld;
};
using Input = Matrix<const void*>;
using Output = Matrix<void*>;

bool is_half(cudaDataType type) { return type == CUDA_R_16F || type == CUDA_R_16BF; }

std::size_t size_of(cudaDataType type) {
  return is_half(type) ? 2 : type == CUDA_R_32F ? sizeof(float) : sizeof(double);
}

template <class Pointer>
std::size_t count_of(const Matrix<Pointer>& matrix) {
  return static_cast<std::size_t>(matrix.rows) * static_cast<std::size_t>(matrix.columns);
}

/// Calls `column(pointer, j)` for every column; for all of them at once, as one long column, if
/// nothing lies between them.
template <class Pointer, class Byte, class Column>
void for_columns(const Matrix<Pointer>& matrix, Byte* data, const Column& column) {
  const std::size_t rows = static_cast<std::size_t>(matrix.rows);
  if (matrix.ld == matrix.rows) return column(data, std::size_t{0}, count_of(matrix));
  const std::size_t bytes = static_cast<std::size_t>(matrix.ld) * size_of(matrix.type);
  for (std::size_t j = 0; j < static_cast<std::size_t>(matrix.columns); ++j) {
    column(data + j * bytes, j * rows, rows);
  }
}

void widen_matrix(const Input& from, float* to) {
  for_columns(from, static_cast<const std::byte*>(from.data),
              [&](const std::byte* column, std::size_t begin, std::size_t count) {
                widen(column, from.type, count, to + begin);
              });
}
void narrow_matrix(const float* from, const Output& to) {
  for_columns(to, static_cast<std::byte*>(to.data),
              [&](std::byte* column, std::size_t begin, std::size_t count) {
                narrow(from + begin, count, to.type, column);
              });
}

/// The library is not instrumented: TSan must be told which columns it reads and writes.
void tell_reads(const Input& matrix) {
  if (!sanitizer::tsan || count_of(matrix) == 0) return;
  for_columns(matrix, static_cast<const std::byte*>(matrix.data),
              [&](const std::byte* column, std::size_t, std::size_t count) {
                sanitizer::reads(column, count * size_of(matrix.type));
              });
}
void tell_writes(const Output& matrix) {
  if (!sanitizer::tsan || count_of(matrix) == 0) return;
  for_columns(matrix, static_cast<std::byte*>(matrix.data),
              [&](std::byte* column, std::size_t, std::size_t count) {
                sanitizer::writes(column, count * size_of(matrix.type));
              });
}

/// Floats for the halves of a product. Of the OS thread and not of the handle, for a
/// handle may go from stream to stream; it grows to the largest product and then stays.
float* scratch(int which, std::size_t count) {
  thread_local std::vector<float> buffers[3];
  std::vector<float>& buffer = buffers[which];
  if (buffer.size() < count) buffer.resize(count);
  return buffer.data();
}

struct ProductTask final : Task {
  CBLAS_TRANSPOSE transpose_a, transpose_b;
  int inner;
  double alpha, beta;  // floats too: exactly
  Input a, b;
  Output c;

  void run() override {
    tell_reads(a);
    tell_reads(b);
    tell_writes(c);
    sanitizer::IgnoreSync ignore;  // the library's own locks order nothing of the program's
    if (c.type == CUDA_R_64F) {
      cblas_dgemm(CblasColMajor, transpose_a, transpose_b, c.rows, c.columns, inner, alpha,
                  static_cast<const double*>(a.data), a.ld, static_cast<const double*>(b.data),
                  b.ld, beta, static_cast<double*>(c.data), c.ld);
    } else {
      multiply_floats();
    }
  }

  void multiply_floats() {
    const auto [float_a, lda] = as_floats(a, 0);
    const auto [float_b, ldb] = as_floats(b, 1);
    float* float_c = static_cast<float*>(c.data);
    int ldc = c.ld;
    if (is_half(c.type)) {
      float_c = scratch(2, count_of(c));
      ldc = c.rows;
      if (beta != 0) widen_matrix({c.data, c.type, c.rows, c.columns, c.ld}, float_c);
    }
    cblas_sgemm(CblasColMajor, transpose_a, transpose_b, c.rows, c.columns, inner,
                static_cast<float>(alpha), float_a, lda, float_b, ldb, static_cast<float>(beta),
                float_c, ldc);
    if (is_half(c.type)) narrow_matrix(float_c, c);
  }

  struct Floats {
    const float* data;
    int ld;
  };
  static Floats as_floats(const Input& matrix, int which) {
    if (!is_half(matrix.type)) return {static_cast<const float*>(matrix.data), matrix.ld};
    float* const floats = scratch(which, count_of(matrix));
    if (count_of(matrix) > 0) widen_matrix(matrix, floats);
    return {floats, std::max(1, matrix.rows)};
  }
};

/// Whether a matrix lies inside the memory that its pointer belongs to.
template <class Pointer>
bool inside(const Matrix<Pointer>& matrix) {
  if (count_of(matrix) == 0) return true;
  const auto found = find_allocation(matrix.data);
  const std::size_t last =
      static_cast<std::size_t>(matrix.columns - 1) * static_cast<std::size_t>(matrix.ld) +
      static_cast<std::size_t>(matrix.rows);
  return found && found->holds(matrix.data, last * size_of(matrix.type));
}

bool is_transposed(cublasOperation_t operation) { return operation != CUBLAS_OP_N; }

double number(const void* value, cudaDataType type) {
  return type == CUDA_R_64F ? *static_cast<const double*>(value)
                            : static_cast<double>(*static_cast<const float*>(value));
}

struct Operand {
  const void* data;
  cudaDataType type;
  int ld;
};
struct Result {
  void* data;
  cudaDataType type;
  int ld;
};

/// `alpha` and `beta` are doubles for double matrices and floats for all others.
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                    int m, int n, int k, const void* alpha, const Operand& a, const Operand& b,
                    const void* beta, const Result& c) {
  if (transa < CUBLAS_OP_N || transa > CUBLAS_OP_C || transb < CUBLAS_OP_N ||
      transb > CUBLAS_OP_C || m < 0 || n < 0 || k < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool flip_a = is_transposed(transa), flip_b = is_transposed(transb);
  const Input input_a{a.data, a.type, flip_a ? k : m, flip_a ? m : k, a.ld};
  const Input input_b{b.data, b.type, flip_b ? n : k, flip_b ? k : n, b.ld};
  const Output output{c.data, c.type, m, n, c.ld};
  if (a.ld < std::max(1, input_a.rows) || b.ld < std::max(1, input_b.rows) ||
      c.ld < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr || beta == nullptr || c.data == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (handle->pointer_mode != CUBLAS_POINTER_MODE_HOST) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto [stream, error] = resolve(handle->stream);
  if (error != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!inside(input_a) || !inside(input_b) || !inside(output)) {
    // A GPU would find out while it runs, or overwrite something.
    std::fprintf(
        stderr,
        "simgpu: gemm of (%d, %d, %d) with leading dimensions %d, %d, %d leaves the memory "
        "of an operand\n",
        m, n, k, a.ld, b.ld, c.ld);
    stream->device.sticky = cudaErrorIllegalAddress;
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  auto task = std::make_unique<ProductTask>();
  task->transpose_a = flip_a ? CblasTrans : CblasNoTrans;
  task->transpose_b = flip_b ? CblasTrans : CblasNoTrans;
  task->inner = k;
  task->alpha = number(alpha, c.type), task->beta = number(beta, c.type);
  task->a = input_a, task->b = input_b, task->c = output;
  enqueue_ordered(*stream, std::move(task));
  return CUBLAS_STATUS_SUCCESS;
}

bool is_supported(cudaDataType a, cudaDataType b, cudaDataType c, cublasComputeType_t compute) {
  if (a != b) return false;
  switch (compute) {
    case CUBLAS_COMPUTE_32F:
    case CUBLAS_COMPUTE_32F_PEDANTIC:
      return (a == CUDA_R_32F && c == CUDA_R_32F) || (is_half(a) && (c == a || c == CUDA_R_32F));
    case CUBLAS_COMPUTE_64F:
    case CUBLAS_COMPUTE_64F_PEDANTIC:
      return a == CUDA_R_64F && c == CUDA_R_64F;
    case CUBLAS_COMPUTE_16F:  // a GPU adds up in halves then, in an order of its own
      return false;
  }
  return false;
}

}  // namespace
}  // namespace simgpu

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float* alpha,
                           const float* A, int lda, const float* B, int ldb, const float* beta,
                           float* C, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return simgpu::gemm(handle, transa, transb, m, n, k, alpha, {A, CUDA_R_32F, lda},
                      {B, CUDA_R_32F, ldb}, beta, {C, CUDA_R_32F, ldc});
}

cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const double* alpha,
                           const double* A, int lda, const double* B, int ldb, const double* beta,
                           double* C, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  return simgpu::gemm(handle, transa, transb, m, n, k, alpha, {A, CUDA_R_64F, lda},
                      {B, CUDA_R_64F, ldb}, beta, {C, CUDA_R_64F, ldc});
}

cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa,
                            cublasOperation_t transb, int m, int n, int k, const void* alpha,
                            const void* A, cudaDataType Atype, int lda, const void* B,
                            cudaDataType Btype, int ldb, const void* beta, void* C,
                            cudaDataType Ctype, int ldc, cublasComputeType_t computeType,
                            cublasGemmAlgo_t algo) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (algo != CUBLAS_GEMM_DEFAULT || !simgpu::is_supported(Atype, Btype, Ctype, computeType)) {
    return CUBLAS_STATUS_NOT_SUPPORTED;
  }
  return simgpu::gemm(handle, transa, transb, m, n, k, alpha, {A, Atype, lda}, {B, Btype, ldb},
                      beta, {C, Ctype, ldc});
}
