// cuBLAS on a CBLAS library, which is column-major too: one call maps to one call.

#include <cblas.h>

#include <algorithm>
#include <memory>

#include "cublas_v2.h"
#include "memory.hpp"
#include "sanitizer.hpp"
#include "stream.hpp"

struct cublasContext {
  explicit cublasContext(int device_) : device(device_) {}
  const int device;
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};

namespace simgpu {
namespace {

void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha,
             const float* a, int lda, const float* b, int ldb, float beta, float* c, int ldc) {
  cblas_sgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}
void product(CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha,
             const double* a, int lda, const double* b, int ldb, double beta, double* c, int ldc) {
  cblas_dgemm(CblasColMajor, ta, tb, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
}

/// The library is not instrumented: TSan must be told which columns it reads and writes.
template <class T>
void tell_reads(const T* matrix, int rows, int columns, int ld) {
  if (!sanitizer::tsan) return;
  for (int j = 0; j < columns; ++j) {
    sanitizer::reads(matrix + static_cast<std::ptrdiff_t>(j) * ld,
                     static_cast<std::size_t>(rows) * sizeof(T));
  }
}
template <class T>
void tell_writes(T* matrix, int rows, int columns, int ld) {
  if (!sanitizer::tsan) return;
  for (int j = 0; j < columns; ++j) {
    sanitizer::writes(matrix + static_cast<std::ptrdiff_t>(j) * ld,
                      static_cast<std::size_t>(rows) * sizeof(T));
  }
}

template <class T>
struct ProductTask final : Task {
  bool transpose_a, transpose_b;
  int m, n, k, lda, ldb, ldc;
  T alpha, beta;
  const T* a;
  const T* b;
  T* c;

  void run() override {
    tell_reads(a, transpose_a ? k : m, transpose_a ? m : k, lda);
    tell_reads(b, transpose_b ? n : k, transpose_b ? k : n, ldb);
    tell_writes(c, m, n, ldc);
    sanitizer::IgnoreSync ignore;  // the library's own locks order nothing of the program's
    product(transpose_a ? CblasTrans : CblasNoTrans, transpose_b ? CblasTrans : CblasNoTrans, m, n,
            k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
};

/// Whether a column-major matrix lies inside the memory that its pointer belongs to.
template <class T>
bool inside(const T* matrix, int rows, int columns, int ld) {
  if (rows == 0 || columns == 0) return true;
  const auto found = find_allocation(matrix);
  const std::size_t last = static_cast<std::size_t>(columns - 1) * static_cast<std::size_t>(ld) +
                           static_cast<std::size_t>(rows);
  return found && found->holds(matrix, last * sizeof(T));
}

bool is_transposed(cublasOperation_t operation) { return operation != CUBLAS_OP_N; }

template <class T>
cublasStatus_t gemm(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb,
                    int m, int n, int k, const T* alpha, const T* a, int lda, const T* b, int ldb,
                    const T* beta, T* c, int ldc) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (transa < CUBLAS_OP_N || transa > CUBLAS_OP_C || transb < CUBLAS_OP_N ||
      transb > CUBLAS_OP_C || m < 0 || n < 0 || k < 0) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const int rows_a = is_transposed(transa) ? k : m, columns_a = is_transposed(transa) ? m : k;
  const int rows_b = is_transposed(transb) ? n : k, columns_b = is_transposed(transb) ? k : n;
  if (lda < std::max(1, rows_a) || ldb < std::max(1, rows_b) || ldc < std::max(1, m)) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (m == 0 || n == 0) return CUBLAS_STATUS_SUCCESS;
  if (alpha == nullptr || beta == nullptr || c == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (handle->pointer_mode != CUBLAS_POINTER_MODE_HOST) return CUBLAS_STATUS_NOT_SUPPORTED;
  const auto [stream, error] = resolve(handle->stream);
  if (error != cudaSuccess) return CUBLAS_STATUS_EXECUTION_FAILED;
  if (!inside(a, rows_a, columns_a, lda) || !inside(b, rows_b, columns_b, ldb) ||
      !inside(c, m, n, ldc)) {
    // A GPU would find out while it runs, or overwrite something.
    std::fprintf(
        stderr,
        "simgpu: gemm of (%d, %d, %d) with leading dimensions %d, %d, %d leaves the memory "
        "of an operand\n",
        m, n, k, lda, ldb, ldc);
    stream->device.sticky = cudaErrorIllegalAddress;
    return CUBLAS_STATUS_EXECUTION_FAILED;
  }
  auto task = std::make_unique<ProductTask<T>>();
  task->transpose_a = is_transposed(transa);
  task->transpose_b = is_transposed(transb);
  task->m = m, task->n = n, task->k = k;
  task->lda = lda, task->ldb = ldb, task->ldc = ldc;
  task->alpha = *alpha, task->beta = *beta;
  task->a = a, task->b = b, task->c = c;
  enqueue_ordered(*stream, std::move(task));
  return CUBLAS_STATUS_SUCCESS;
}

}  // namespace
}  // namespace simgpu

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  if (handle == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const auto [device, error] = simgpu::current();
  if (error != cudaSuccess) return CUBLAS_STATUS_NOT_INITIALIZED;
  openblas_set_num_threads(1);  // one OS thread a stream; more would take the other ranks' cores
  *handle = new cublasContext(device->ordinal);
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasDestroy(cublasHandle_t handle) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  delete handle;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetVersion(cublasHandle_t handle, int* version) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (version == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *version = 130000;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetStream(cublasHandle_t handle, cudaStream_t stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->stream = stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetStream(cublasHandle_t handle, cudaStream_t* stream) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (stream == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *stream = handle->stream;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* workspace, std::size_t bytes) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (bytes == 0) return CUBLAS_STATUS_SUCCESS;  // back to the handle's own
  const auto found = simgpu::find_allocation(workspace);
  const bool aligned = reinterpret_cast<std::uintptr_t>(workspace) % 256 == 0;
  return found && aligned && found->holds(workspace, bytes) ? CUBLAS_STATUS_SUCCESS
                                                            : CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasSetMathMode(cublasHandle_t handle, cublasMath_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->math = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetMathMode(cublasHandle_t handle, cublasMath_t* mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = handle->math;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetPointerMode(cublasHandle_t handle, cublasPointerMode_t mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  handle->pointer_mode = mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetPointerMode(cublasHandle_t handle, cublasPointerMode_t* mode) {
  if (handle == nullptr) return CUBLAS_STATUS_NOT_INITIALIZED;
  if (mode == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *mode = handle->pointer_mode;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const float* alpha,
                           const float* A, int lda, const float* B, int ldb, const float* beta,
                           float* C, int ldc) {
  return simgpu::gemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

cublasStatus_t cublasDgemm(cublasHandle_t handle, cublasOperation_t transa,
                           cublasOperation_t transb, int m, int n, int k, const double* alpha,
                           const double* A, int lda, const double* B, int ldb, const double* beta,
                           double* C, int ldc) {
  return simgpu::gemm(handle, transa, transb, m, n, k, alpha, A, lda, B, ldb, beta, C, ldc);
}

namespace {

struct StatusEntry {
  cublasStatus_t status;
  const char* name;
  const char* text;
};

constexpr StatusEntry statuses[] = {
    {CUBLAS_STATUS_SUCCESS, "CUBLAS_STATUS_SUCCESS", "success"},
    {CUBLAS_STATUS_NOT_INITIALIZED, "CUBLAS_STATUS_NOT_INITIALIZED",
     "the library was not initialized"},
    {CUBLAS_STATUS_ALLOC_FAILED, "CUBLAS_STATUS_ALLOC_FAILED", "the resource allocation failed"},
    {CUBLAS_STATUS_INVALID_VALUE, "CUBLAS_STATUS_INVALID_VALUE",
     "an unsupported value or parameter was passed to the function"},
    {CUBLAS_STATUS_ARCH_MISMATCH, "CUBLAS_STATUS_ARCH_MISMATCH",
     "the requested functionality is not supported by the device"},
    {CUBLAS_STATUS_MAPPING_ERROR, "CUBLAS_STATUS_MAPPING_ERROR",
     "an access to GPU memory space failed"},
    {CUBLAS_STATUS_EXECUTION_FAILED, "CUBLAS_STATUS_EXECUTION_FAILED",
     "the GPU program failed to execute"},
    {CUBLAS_STATUS_INTERNAL_ERROR, "CUBLAS_STATUS_INTERNAL_ERROR", "an internal operation failed"},
    {CUBLAS_STATUS_NOT_SUPPORTED, "CUBLAS_STATUS_NOT_SUPPORTED",
     "the functionality requested is not supported"},
};

}  // namespace

const char* cublasGetStatusName(cublasStatus_t status) {
  for (const auto& entry : statuses) {
    if (entry.status == status) return entry.name;
  }
  return "unknown cuBLAS status";
}

const char* cublasGetStatusString(cublasStatus_t status) {
  for (const auto& entry : statuses) {
    if (entry.status == status) return entry.text;
  }
  return "unknown cuBLAS status";
}
