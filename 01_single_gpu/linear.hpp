#pragma once

#include <cublas_v2.h>

#include "common/cuda/blas.hpp"
#include "common/cuda/check.hpp"
#include "common/cuda/trace.hpp"
#include "common/cuda/wide.hpp"

namespace ddp {

/// A row-major matrix as it lies in memory, and whether a product takes it or its transpose.
template <class T>
struct Factor {
  const T* data;  // (rows, columns)
  int rows, columns;
  bool transposed = false;
  Factor transpose() const { return {data, rows, columns, !transposed}; }
};

/// product = a b + beta * product, all row-major; with beta = 0 the old product is not read.
///
/// cuBLAS stores matrices by columns, we by rows. The memory of a row-major C, read by columns, is
/// C^T; and (A B)^T = B^T A^T, where B^T and A^T are again the memory of B and A read by columns.
/// So swap the factors and the dimensions of the product, and transpose nothing in memory.
template <class T, class Product>
void multiply(cublasHandle_t blas, const Factor<T>& a, const Factor<T>& b, Wide<T> beta,
              Product* product) {
  const cublasOperation_t a_operation = a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const cublasOperation_t b_operation = b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
  const Wide<T> alpha = 1;
  const int rows = a.transposed ? a.columns : a.rows;
  const int inner = a.transposed ? a.rows : a.columns;
  const int columns = b.transposed ? b.rows : b.columns;
  cuda::Timed timed(blas);
  // [exercise 1.2] Call cuda::gemm for the row-major product. Leading dimension: a stored row.
  cuda::check(cuda::gemm(blas, b_operation, a_operation, columns, rows, inner, &alpha, b.data,
                         b.columns, a.data, a.columns, &beta, product, columns));
  // [/exercise]
  if (timed) timed.end(cuda::product_operation(rows, columns, inner, sizeof(T)));
}

}  // namespace ddp
