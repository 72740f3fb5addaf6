// cublasSgemm and cublasDgemm against plain loops, to the bit: the inputs are small integers.
#include "tests/simgpu/conformance/gemm.hpp"

namespace ddp::conformance {
namespace {

const std::vector<cublasOperation_t> operations = {CUBLAS_OP_N, CUBLAS_OP_T, CUBLAS_OP_C};

TEST_CASE_METHOD(ProductTest,
                 "products for every pair of transpositions and odd leading dimensions",
                 "[cublas]") {
  for (const cublasOperation_t transpose_a : operations)
    for (const cublasOperation_t transpose_b : operations) {
      check_both({transpose_a, transpose_b, 5, 3, 4, 1, 0});
      check_both({transpose_a, transpose_b, 13, 7, 29, 2, -1, 1, 2, 3});
      check_both({transpose_a, transpose_b, 65, 33, 17, 1, 1, 5, 7, 11});
    }
}

TEST_CASE_METHOD(ProductTest, "products of vectors and single numbers", "[cublas]") {
  for (const cublasOperation_t transpose_a : operations)
    for (const cublasOperation_t transpose_b : operations) {
      check_both({transpose_a, transpose_b, 1, 1, 1, 3, 2});
      check_both({transpose_a, transpose_b, 1, 9, 6, 1, 0, 1, 1, 1});
      check_both({transpose_a, transpose_b, 9, 1, 6, 1, 0, 1, 1, 1});
      check_both({transpose_a, transpose_b, 8, 9, 1, 1, 1, 0, 2, 1});
    }
}

TEST_CASE_METHOD(ProductTest, "alpha and beta of 0, 1 and others", "[cublas]") {
  for (const double alpha : {0.0, 1.0, -1.0, 0.5, 3.0})
    for (const double beta : {0.0, 1.0, -1.0, 0.25, 2.0}) {
      check_both({CUBLAS_OP_N, CUBLAS_OP_T, 12, 10, 8, alpha, beta, 1, 0, 2});
    }
}

TEST_CASE_METHOD(ProductTest, "with beta = 0 the old C is not read, be it NaN", "[cublas]") {
  check_product<float>({CUBLAS_OP_N, CUBLAS_OP_N, 20, 15, 10, 1, 0, 0, 0, 3}, true);
  check_product<double>({CUBLAS_OP_T, CUBLAS_OP_T, 20, 15, 10, 2, 0, 1, 1, 0}, true);
  check_product<float>({CUBLAS_OP_T, CUBLAS_OP_N, 1, 1, 1, 1, 0}, true);
}

TEST_CASE_METHOD(ProductTest, "a sum over nothing scales C", "[cublas]") {
  // The leading dimensions of empty matrices must still be at least 1.
  check_both({CUBLAS_OP_N, CUBLAS_OP_N, 4, 3, 0, 1, 2, 0, 1, 1});
  check_both({CUBLAS_OP_T, CUBLAS_OP_T, 4, 3, 0, 1, 0, 1, 0, 0});
  check_both({CUBLAS_OP_T, CUBLAS_OP_N, 4, 3, 0, 1, 1, 1, 1, 0});
}

// The three products of a linear layer with row-major data, as column-major cuBLAS sees them.
TEST_CASE_METHOD(ProductTest, "the products of a layer 784 to 10 on a batch of 37", "[cublas]") {
  check_both({CUBLAS_OP_T, CUBLAS_OP_N, 10, 37, 784, 1, 0});  // outputs
  check_both({CUBLAS_OP_N, CUBLAS_OP_T, 784, 10, 37, 1, 1});  // weights' gradient, accumulated
  check_both({CUBLAS_OP_N, CUBLAS_OP_N, 784, 37, 10, 1, 0});  // inputs' gradient
}

TEST_CASE_METHOD(ProductTest, "one product, twice, gives the same bits", "[cublas]") {
  constexpr int size = 96;
  std::vector<float> values(size * size);
  for (std::size_t i = 0; i < values.size(); ++i) {
    values[i] = 1.0F / static_cast<float>(i % 1013 + 3);
  }
  const cuda::DeviceBuffer<float> input = on_device(values);
  const cuda::DeviceBuffer<float> first(values.size()), second(values.size());
  const float one = 1, zero = 0;
  for (float* const output : {first.data(), second.data()}) {
    CHECK(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_T, size, size, size, &one, input.data(), size,
                      input.data(), size, &zero, output, size) == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(read_back(first) == read_back(second));
}

TEST_CASE_METHOD(ProductTest,
                 "single precision stays single precision: no reduced-precision products",
                 "[cublas]") {
  // 1 + 2^-12 squared needs more bits than the 10 that TF32 keeps.
  constexpr int size = 64;
  const float value = 1.0F + 0x1p-12F, one = 1, zero = 0;
  std::vector<float> diagonal(size * size), expected(size * size);
  for (std::size_t i = 0; i < size; ++i) {
    diagonal[i * size + i] = value;
    expected[i * size + i] = value * value;
  }
  const cuda::DeviceBuffer<float> input = on_device(diagonal);
  const cuda::DeviceBuffer<float> output(size * size);
  CHECK(cublasSgemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, input.data(), size,
                    input.data(), size, &zero, output.data(), size) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(output) == expected);
}

}  // namespace
}  // namespace ddp::conformance
