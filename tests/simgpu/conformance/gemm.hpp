#pragma once

#include <cstddef>
#include <limits>
#include <vector>

#include "common/cuda/blas.hpp"
#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

namespace ddp::conformance {

/// A column-major matrix in host memory whose columns lie `leading` elements apart. What lies
/// between the columns is padding, which nobody may change.
template <class T>
struct Matrix {
  Matrix(int rows_, int columns_, int leading_)
      : rows(rows_),
        columns(columns_),
        leading(leading_),
        values(static_cast<std::size_t>(leading_) * static_cast<std::size_t>(columns_), padding) {}

  T& operator()(int row, int column) { return values[index(row, column)]; }
  T operator()(int row, int column) const { return values[index(row, column)]; }

  std::size_t index(int row, int column) const {
    return static_cast<std::size_t>(row) +
           static_cast<std::size_t>(column) * static_cast<std::size_t>(leading);
  }

  static constexpr T padding = static_cast<T>(-77);
  int rows, columns, leading;
  std::vector<T> values;
};

/// Small integers that depend on the place: their products add exactly in every order.
template <class T>
Matrix<T> pattern(int rows, int columns, int leading, int seed) {
  Matrix<T> matrix(rows, columns, leading);
  for (int column = 0; column < columns; ++column)
    for (int row = 0; row < rows; ++row) {
      matrix(row, column) = static_cast<T>((row * 7 + column * 13 + seed) % 11 - 5);
    }
  return matrix;
}

/// A product to compute, in cuBLAS's terms: op(A) is (m, k), op(B) is (k, n), C is (m, n). The
/// leading dimensions are the least possible plus these paddings.
struct Product {
  cublasOperation_t transpose_a, transpose_b;
  int m, n, k;
  double alpha, beta;
  int padding_a = 0, padding_b = 0, padding_c = 0;
};

inline cublasStatus_t gemm(cublasHandle_t handle, const Product& p, const float* alpha,
                           const float* a, int lda, const float* b, int ldb, const float* beta,
                           float* c, int ldc) {
  return cublasSgemm(handle, p.transpose_a, p.transpose_b, p.m, p.n, p.k, alpha, a, lda, b, ldb,
                     beta, c, ldc);
}
inline cublasStatus_t gemm(cublasHandle_t handle, const Product& p, const double* alpha,
                           const double* a, int lda, const double* b, int ldb, const double* beta,
                           double* c, int ldc) {
  return cublasDgemm(handle, p.transpose_a, p.transpose_b, p.m, p.n, p.k, alpha, a, lda, b, ldb,
                     beta, c, ldc);
}

/// A stream with cuBLAS, for tests of products.
class ProductTest {
 public:
  /// Computes `p` by cuBLAS and by three plain loops, and compares every element and all padding.
  /// With `nan_in_c` C holds NaN before: for beta = 0 it must not be read.
  template <class T>
  void check_product(const Product& p, bool nan_in_c = false) const;

  void check_both(const Product& p) const {
    check_product<float>(p);
    check_product<double>(p);
  }

 protected:
  cuda::Stream stream_;
  cuda::Blas blas_{stream_};
};

template <class T>
void ProductTest::check_product(const Product& p, bool nan_in_c) const {
  CAPTURE(p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, p.beta);
  const bool flip_a = p.transpose_a != CUBLAS_OP_N, flip_b = p.transpose_b != CUBLAS_OP_N;
  const int rows_a = flip_a ? p.k : p.m, columns_a = flip_a ? p.m : p.k;
  const int rows_b = flip_b ? p.n : p.k, columns_b = flip_b ? p.k : p.n;
  const Matrix<T> a = pattern<T>(rows_a, columns_a, rows_a + p.padding_a, 3);
  const Matrix<T> b = pattern<T>(rows_b, columns_b, rows_b + p.padding_b, 8);
  Matrix<T> c = pattern<T>(p.m, p.n, p.m + p.padding_c, 1);
  const T alpha = static_cast<T>(p.alpha), beta = static_cast<T>(p.beta);

  Matrix<T> expected = c;
  for (int column = 0; column < p.n; ++column)
    for (int row = 0; row < p.m; ++row) {
      T sum = 0;
      for (int i = 0; i < p.k; ++i) {
        sum += (flip_a ? a(i, row) : a(row, i)) * (flip_b ? b(column, i) : b(i, column));
      }
      expected(row, column) = alpha * sum + (p.beta == 0 ? 0 : beta * c(row, column));
      if (nan_in_c) c(row, column) = std::numeric_limits<T>::quiet_NaN();
    }

  const cuda::DeviceBuffer<T> device_a = on_device(a.values), device_b = on_device(b.values);
  const cuda::DeviceBuffer<T> device_c = on_device(c.values);
  CHECK(gemm(blas_, p, &alpha, device_a.data(), a.leading, device_b.data(), b.leading, &beta,
             device_c.data(), c.leading) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(device_c) == expected.values);
  CHECK(read_back(device_a) == a.values);
  CHECK(read_back(device_b) == b.values);
}

}  // namespace ddp::conformance
