// Products of halves by cuda::gemm, that is cublasGemmEx, to the bit: what is multiplied and added
// up is exact in fp32 in any order, and what is rounded is rounded once.
#include "common/cuda/launch.hpp"
#include "tests/simgpu/conformance/gemm.hpp"
#include "tests/simgpu/conformance/half_types.hpp"

namespace ddp::conformance {
namespace {

/// Numbers as halves or floats.
template <class T>
std::vector<T> numbers(const std::vector<float>& values) {
  return std::vector<T>(values.begin(), values.end());
}

template <class T>
std::vector<float> as_floats(const std::vector<T>& values) {
  return std::vector<float>(values.begin(), values.end());
}

class HalfProductTest : public ProductTest {
 protected:
  /// C after C = alpha * a b + beta * C for a row a of k numbers and a column b.
  template <class In, class Out = In>
  float dot(const std::vector<float>& a, const std::vector<float>& b, float alpha = 1,
            float beta = 0, float c = 0) const {
    const int k = static_cast<int>(a.size());
    const cuda::DeviceBuffer<In> row = on_device(numbers<In>(a)),
                                 column = on_device(numbers<In>(b));
    const cuda::DeviceBuffer<Out> result = on_device(numbers<Out>({c}));
    CHECK(cuda::gemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, k, &alpha, row.data(), 1, column.data(),
                     k, &beta, result.data(), 1) == CUBLAS_STATUS_SUCCESS);
    return as_floats(read_back(result)).front();
  }

  template <class In, class Out>
  void check_against_loops(const Product& p, bool nan_in_c = false) const;
};

template <class In, class Out>
void HalfProductTest::check_against_loops(const Product& p, bool nan_in_c) const {
  CAPTURE(p.transpose_a, p.transpose_b, p.m, p.n, p.k, p.alpha, p.beta);
  const bool flip_a = p.transpose_a != CUBLAS_OP_N, flip_b = p.transpose_b != CUBLAS_OP_N;
  const int rows_a = flip_a ? p.k : p.m, columns_a = flip_a ? p.m : p.k;
  const int rows_b = flip_b ? p.n : p.k, columns_b = flip_b ? p.k : p.n;
  const Matrix<float> a = pattern<float>(rows_a, columns_a, rows_a + p.padding_a, 3);
  const Matrix<float> b = pattern<float>(rows_b, columns_b, rows_b + p.padding_b, 8);
  Matrix<float> c = pattern<float>(p.m, p.n, p.m + p.padding_c, 1);
  Matrix<float> expected = c;
  const float alpha = static_cast<float>(p.alpha), beta = static_cast<float>(p.beta);
  for (int column = 0; column < p.n; ++column)
    for (int row = 0; row < p.m; ++row) {
      float sum = 0;
      for (int i = 0; i < p.k; ++i) {
        sum += (flip_a ? a(i, row) : a(row, i)) * (flip_b ? b(column, i) : b(i, column));
      }
      const float result = alpha * sum + (beta == 0 ? 0 : beta * c(row, column));
      expected(row, column) = static_cast<float>(static_cast<Out>(result));
      if (nan_in_c) c(row, column) = std::numeric_limits<float>::quiet_NaN();
    }
  const cuda::DeviceBuffer<In> device_a = on_device(numbers<In>(a.values));
  const cuda::DeviceBuffer<In> device_b = on_device(numbers<In>(b.values));
  const cuda::DeviceBuffer<Out> device_c = on_device(numbers<Out>(c.values));
  CHECK(cuda::gemm(blas_, p.transpose_a, p.transpose_b, p.m, p.n, p.k, &alpha, device_a.data(),
                   a.leading, device_b.data(), b.leading, &beta, device_c.data(),
                   c.leading) == CUBLAS_STATUS_SUCCESS);
  CHECK(as_floats(read_back(device_c)) == expected.values);
  CHECK(as_floats(read_back(device_a)) == a.values);
  CHECK(as_floats(read_back(device_b)) == b.values);
}

TEST_CASE_METHOD(HalfProductTest, "products of halves for every pair of transpositions",
                 "[cublas]") {
  const auto check = [&](const Product& p) {
    check_against_loops<__half, __half>(p);
    check_against_loops<__half, float>(p);
    check_against_loops<__nv_bfloat16, __nv_bfloat16>(p);
    check_against_loops<__nv_bfloat16, float>(p);
  };
  for (const cublasOperation_t transpose_a : {CUBLAS_OP_N, CUBLAS_OP_T})
    for (const cublasOperation_t transpose_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      check({transpose_a, transpose_b, 5, 3, 4, 1, 0});
      check({transpose_a, transpose_b, 13, 7, 29, 2, -1, 1, 2, 3});
      check({transpose_a, transpose_b, 65, 33, 17, 0.5, 1, 5, 7, 11});
    }
  check({CUBLAS_OP_N, CUBLAS_OP_N, 4, 3, 0, 1, 2, 0, 1, 1});  // a sum over nothing scales C
  check({CUBLAS_OP_T, CUBLAS_OP_N, 10, 37, 784, 1, 0});       // a layer's outputs
  check({CUBLAS_OP_N, CUBLAS_OP_T, 784, 10, 37, 1, 1});       // weights' gradient, accumulated
}

TEST_CASE_METHOD(HalfProductTest, "a product of halves with beta = 0 does not read the old C",
                 "[cublas]") {
  check_against_loops<__half, __half>({CUBLAS_OP_N, CUBLAS_OP_N, 20, 15, 10, 1, 0, 0, 0, 3}, true);
  check_against_loops<__nv_bfloat16, float>({CUBLAS_OP_T, CUBLAS_OP_N, 20, 15, 10, 1, 0}, true);
}

TEST_CASE_METHOD(HalfProductTest, "a product of halves by hand", "[cublas]") {
  // [1 3; 2 4] times [0.5 -7; 6 1024], column by column
  const cuda::DeviceBuffer<half> a = on_device(numbers<half>({1, 2, 3, 4}));
  const cuda::DeviceBuffer<half> b = on_device(numbers<half>({0.5F, 6, -7, 1024}));
  const cuda::DeviceBuffer<half> c = on_device(numbers<half>({10, 20, 30, 40}));
  const float one = 1;
  CHECK(cuda::gemm(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &one, a.data(), 2, b.data(), 2, &one,
                   c.data(), 2) == CUBLAS_STATUS_SUCCESS);
  // The last two are 3095 and 4122, which lie between halves, the latter in the middle of two.
  CHECK(as_floats(read_back(c)) == std::vector<float>{28.5F, 45, 3096, 4120});
}

TEST_CASE_METHOD(HalfProductTest, "MP-01: halves are added up in fp32", "[cublas]") {
  // In fp16 the sum would stand still at 2048, in bfloat16 at 256.
  const std::vector<float> ones(2049, 1);
  CHECK(dot<half, float>(ones, ones) == 2049);
  CHECK(dot<nv_bfloat16, float>(ones, ones) == 2049);
  const std::vector<float> more(2051, 1);
  CHECK(dot<half>(more, more) == 2052);  // 2051 lies between 2050 and 2052
  CHECK(dot<nv_bfloat16>(more, more) == 2048);
  CHECK(dot<nv_bfloat16>(std::vector<float>(259, 1), std::vector<float>(259, 1)) == 260);
  // Terms that are lost beside 4096 in halves, 64 of which make 1/16.
  std::vector<float> terms(4096, 1);
  terms.insert(terms.end(), 64, 0x1p-10F);
  const std::vector<float> factors(terms.size(), 1);
  CHECK(dot<half, float>(terms, factors) == 4096.0625F);
  CHECK(dot<nv_bfloat16, float>(terms, factors) == 4096.0625F);
}

TEST_CASE_METHOD(HalfProductTest, "a product in halves is rounded once, with beta * C added",
                 "[cublas]") {
  // The product is rounded to 2^-11 if it is rounded by itself, and the sum then down to 1.
  CHECK(dot<half>({0x1p-5F, 0x1p-11F}, {0x1p-6F, 0x1p-12F}, 1, 1, 1) == 1 + 0x1p-10F);
  CHECK(dot<nv_bfloat16>({0x1p-4F, 0x1p-10F}, {0x1p-4F, 0x1p-10F}, 1, 1, 1) == 1 + 0x1p-7F);
  // Ties: to even.
  CHECK(dot<half>({0x1p-5F}, {0x1p-6F}, 1, 1, 1) == 1);
  CHECK(dot<half>({0x1p-5F}, {0x3p-6F}, 1, 1, 1) == 1 + 0x1p-9F);
}

TEST_CASE_METHOD(HalfProductTest, "alpha and beta of a product of halves are fp32", "[cublas]") {
  const float more = 1 + 0x1p-20F;
  CHECK(dot<half, float>({1}, {1}, more) == more);
  CHECK(dot<half, float>({0}, {1}, 1, more, 3) == 3 * more);
}

TEST_CASE_METHOD(HalfProductTest, "a product of halves is added to a C in fp32", "[cublas]") {
  CHECK(dot<half, float>({1}, {1}, 1, 1, 0.1F) == 1.1F);
  CHECK(dot<nv_bfloat16, float>({1}, {1}, 1, 1, 0x1p-23F) == 1 + 0x1p-23F);
}

TEST_CASE_METHOD(HalfProductTest, "ends of the range in products of halves", "[cublas]") {
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(dot<half>({60000, 60000}, {1, -1}) == 0);
  CHECK(dot<half>({60000, 60000}, {1, 1}) == infinity);
  CHECK(dot<half>({60000, 60000}, {1, 1}, 0.5F) == 60000);
  CHECK(dot<half, float>({60000, 60000}, {1, 1}) == 120000);
  CHECK(dot<half>({0x1p-24F}, {1}) == 0x1p-24F);
  CHECK(dot<half>({0x1p-24F}, {0.5F}) == 0);
  CHECK(dot<half, float>({0x1p-24F}, {0x1p-24F}) == 0x1p-48F);
  CHECK(std::isnan(dot<half>({infinity}, {0})));
}

/// cublasGemmEx with types that cuda::gemm has no name for.
struct Types {
  cudaDataType a, b, c;
  cublasComputeType_t compute;
};

TEST_CASE_METHOD(HalfProductTest, "types that do not go together are not supported", "[cublas]") {
  const std::vector<double> before(16, 7);
  const cuda::DeviceBuffer<double> data = on_device(before);
  const double zero = 0;  // of either type
  const auto call = [&](const Types& types) {
    return cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 2, 2, 2, &zero, data.data(), types.a, 2,
                        data.data(), types.b, 2, &zero, data.data() + 12, types.c, 2, types.compute,
                        CUBLAS_GEMM_DEFAULT);
  };
  const Types wrong[] = {{CUDA_R_16F, CUDA_R_16BF, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                         {CUDA_R_16F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F},
                         {CUDA_R_16F, CUDA_R_16F, CUDA_R_16BF, CUBLAS_COMPUTE_32F},
                         {CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16F, CUBLAS_COMPUTE_32F},
                         {CUDA_R_16F, CUDA_R_16F, CUDA_R_64F, CUBLAS_COMPUTE_32F},
                         {CUDA_R_32F, CUDA_R_32F, CUDA_R_16F, CUBLAS_COMPUTE_32F},
                         {CUDA_R_16F, CUDA_R_16F, CUDA_R_16F, CUBLAS_COMPUTE_64F},
                         {CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_32F}};
  for (const Types& types : wrong) {
    CAPTURE(types.a, types.b, types.c, types.compute);
    CHECK(call(types) == CUBLAS_STATUS_NOT_SUPPORTED);
  }
  CHECK(read_back(data) == before);
  CHECK(call({CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUBLAS_COMPUTE_32F}) == CUBLAS_STATUS_SUCCESS);
  CHECK(call({CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUBLAS_COMPUTE_64F}) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(data) == std::vector<double>{7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0});
}

TEST_CASE_METHOD(HalfProductTest, "floats and doubles by cublasGemmEx", "[cublas]") {
  const cuda::DeviceBuffer<float> floats = on_device(std::vector<float>{3, 0.1F, 0.5F});
  const float one = 1;
  CHECK(cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &one, floats.data(), CUDA_R_32F, 1,
                     floats.data() + 1, CUDA_R_32F, 1, &one, floats.data() + 2, CUDA_R_32F, 1,
                     CUBLAS_COMPUTE_32F_PEDANTIC, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(floats)[2] == 3 * 0.1F + 0.5F);
  const cuda::DeviceBuffer<double> doubles = on_device(std::vector<double>{3, 0.125, 0x1p-50});
  const double two = 2;
  CHECK(cublasGemmEx(blas_, CUBLAS_OP_N, CUBLAS_OP_N, 1, 1, 1, &two, doubles.data(), CUDA_R_64F, 1,
                     doubles.data() + 1, CUDA_R_64F, 1, &two, doubles.data() + 2, CUDA_R_64F, 1,
                     CUBLAS_COMPUTE_64F, CUBLAS_GEMM_DEFAULT) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(doubles)[2] == 0.75 + 0x1p-49);
}

TEST_CASE_METHOD(HalfProductTest, "wrong arguments of a product of halves", "[cublas]") {
  const cuda::DeviceBuffer<half> data = on_device(numbers<half>(std::vector<float>(12, 1)));
  const float one = 1;
  const auto call = [&](cublasHandle_t handle, int m, int n, int lda) {
    return cuda::gemm(handle, CUBLAS_OP_N, CUBLAS_OP_N, m, n, 2, &one, data.data(), lda,
                      data.data() + 4, 2, &one, data.data() + 8, 2);
  };
  CHECK(call(nullptr, 2, 2, 2) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(call(blas_, -1, 2, 2) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(call(blas_, 2, 2, 1) == CUBLAS_STATUS_INVALID_VALUE);
  CHECK(call(blas_, 0, 2, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(blas_, 2, 0, 2) == CUBLAS_STATUS_SUCCESS);
  CHECK(as_floats(read_back(data)) == std::vector<float>(12, 1));
}

__global__ void fill(half* values, float value) {
  values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

TEST_CASE("products of halves run in order in their streams, also when a handle changes streams",
          "[cublas]") {
  constexpr int size = 192, count = size * size, rounds = 20;
  const cuda::Stream streams[2];
  const cuda::Blas blas(streams[0]);
  const float one = 1, zero = 0;
  const cuda::DeviceBuffer<half> inputs[2] = {cuda::DeviceBuffer<half>(count),
                                              cuda::DeviceBuffer<half>(count)};
  const cuda::DeviceBuffer<float> sums[2] = {zeros_on_device<float>(count),
                                             zeros_on_device<float>(count)};
  const cuda::DeviceBuffer<half> last[2] = {cuda::DeviceBuffer<half>(count),
                                            cuda::DeviceBuffer<half>(count)};
  for (int round = 1; round <= rounds; ++round)
    for (int i = 0; i < 2; ++i) {
      cuda::check(cublasSetStream(blas, streams[i]));
      const half* const input = inputs[i].data();
      cuda::launch<fill>({streams[i], size, size}, inputs[i].data(),
                         static_cast<float>(i + 1 + round % 2));
      CHECK(cuda::gemm(blas, CUBLAS_OP_N, CUBLAS_OP_T, size, size, size, &one, input, size, input,
                       size, &one, sums[i].data(), size) == CUBLAS_STATUS_SUCCESS);
      CHECK(cuda::gemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, 1, size, &one, input, size, input,
                       size, &zero, last[i].data(), size) == CUBLAS_STATUS_SUCCESS);
    }
  // Ten rounds each with 1 and 2, or 2 and 3: their squares, times the 192 terms.
  CHECK(read_back(sums[0]) == std::vector<float>(count, 10 * (1 + 4) * size));
  CHECK(read_back(sums[1]) == std::vector<float>(count, 10 * (4 + 9) * size));
  CHECK(as_floats(read_back(last[0])).front() == 1 * size);
  CHECK(as_floats(read_back(last[1])).front() == 4 * size);
}

TEST_CASE("the math mode forbids reduced precision, beside another mode", "[cublas]") {
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  cublasMath_t mode = CUBLAS_DEFAULT_MATH;
  CHECK(cublasGetMathMode(blas, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  const auto both = static_cast<cublasMath_t>(CUBLAS_PEDANTIC_MATH |
                                              CUBLAS_MATH_DISALLOW_REDUCED_PRECISION_REDUCTION);
  CHECK(cublasSetMathMode(blas, both) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetMathMode(blas, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == both);
}

}  // namespace
}  // namespace ddp::conformance
