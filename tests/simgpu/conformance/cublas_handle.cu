// A cuBLAS handle: its stream, workspace and mode, the order of its work, and wrong arguments.
#include "common/cuda/launch.hpp"
#include "tests/simgpu/conformance/gemm.hpp"

namespace ddp::conformance {
namespace {

struct Handle {
  Handle() { cuda::check(cublasCreate(&handle)); }
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
  ~Handle() { cublasDestroy(handle); }
  operator cublasHandle_t() const { return handle; }
  cublasHandle_t handle = nullptr;
};

TEST_CASE("a new handle works in the null stream; cublasSetStream changes that", "[cublas]") {
  const Handle handle;
  const cuda::Stream stream;
  cudaStream_t seen = stream;
  CHECK(cublasGetStream(handle, &seen) == CUBLAS_STATUS_SUCCESS);
  CHECK(seen == nullptr);
  CHECK(cublasSetStream(handle, stream) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetStream(handle, &seen) == CUBLAS_STATUS_SUCCESS);
  CHECK(seen == static_cast<cudaStream_t>(stream));
}

TEST_CASE("math mode and pointer mode are kept", "[cublas]") {
  const Handle handle;
  cublasMath_t mode = CUBLAS_PEDANTIC_MATH;
  CHECK(cublasGetMathMode(handle, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == CUBLAS_DEFAULT_MATH);
  CHECK(cublasSetMathMode(handle, CUBLAS_PEDANTIC_MATH) == CUBLAS_STATUS_SUCCESS);
  CHECK(cublasGetMathMode(handle, &mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(mode == CUBLAS_PEDANTIC_MATH);
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_DEVICE;
  CHECK(cublasGetPointerMode(handle, &pointer_mode) == CUBLAS_STATUS_SUCCESS);
  CHECK(pointer_mode == CUBLAS_POINTER_MODE_HOST);
}

TEST_CASE("a handle takes a workspace of the user's", "[cublas]") {
  const Handle handle;
  const cuda::DeviceBuffer<unsigned char> workspace(std::size_t{4} << 20);
  CHECK(cublasSetWorkspace(handle, workspace.data(), workspace.size()) == CUBLAS_STATUS_SUCCESS);
}

TEST_CASE("the version and the names of the codes", "[cublas]") {
  const Handle handle;
  int version = 0;
  CHECK(cublasGetVersion(handle, &version) == CUBLAS_STATUS_SUCCESS);
  CHECK(version >= 120000);
  CHECK(std::string(cublasGetStatusName(CUBLAS_STATUS_SUCCESS)) == "CUBLAS_STATUS_SUCCESS");
  CHECK(std::string(cublasGetStatusName(CUBLAS_STATUS_INVALID_VALUE)) ==
        "CUBLAS_STATUS_INVALID_VALUE");
  CHECK(std::string(cublasGetStatusName(CUBLAS_STATUS_NOT_INITIALIZED)) ==
        "CUBLAS_STATUS_NOT_INITIALIZED");
}

// Two by two, so that every argument can be wrong in one place.
struct Arguments {
  cublasHandle_t handle;
  int m = 2, n = 2, k = 2, lda = 2, ldb = 2, ldc = 2;
};

cublasStatus_t call(const Arguments& a, const cuda::DeviceBuffer<float>& data) {
  const float one = 1, zero = 0;
  return cublasSgemm(a.handle, CUBLAS_OP_N, CUBLAS_OP_N, a.m, a.n, a.k, &one, data.data(), a.lda,
                     data.data() + 4, a.ldb, &zero, data.data() + 8, a.ldc);
}

TEST_CASE("wrong sizes are CUBLAS_STATUS_INVALID_VALUE and change nothing", "[cublas]") {
  const Handle handle;
  const std::vector<float> before = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const cuda::DeviceBuffer<float> data = on_device(before);
  Arguments arguments{handle};
  for (int Arguments::*const size : {&Arguments::m, &Arguments::n, &Arguments::k}) {
    Arguments wrong = arguments;
    wrong.*size = -1;
    CHECK(call(wrong, data) == CUBLAS_STATUS_INVALID_VALUE);
  }
  for (int Arguments::*const leading : {&Arguments::lda, &Arguments::ldb, &Arguments::ldc})
    for (const int too_small : {1, 0, -2}) {
      Arguments wrong = arguments;
      wrong.*leading = too_small;
      CHECK(call(wrong, data) == CUBLAS_STATUS_INVALID_VALUE);
    }
  CHECK(read_back(data) == before);
  CHECK(call(arguments, data) == CUBLAS_STATUS_SUCCESS);
  // [1 3; 2 4] times [5 7; 6 8], column by column
  CHECK(read_back(data) == std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8, 23, 34, 31, 46});
}

TEST_CASE("a result without rows or columns is no error and no work", "[cublas]") {
  const Handle handle;
  const std::vector<float> before = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};
  const cuda::DeviceBuffer<float> data = on_device(before);
  Arguments no_rows{handle};
  no_rows.m = 0;
  Arguments no_columns{handle};
  no_columns.n = 0;
  CHECK(call(no_rows, data) == CUBLAS_STATUS_SUCCESS);
  CHECK(call(no_columns, data) == CUBLAS_STATUS_SUCCESS);
  CHECK(read_back(data) == before);
}

TEST_CASE("without a handle: CUBLAS_STATUS_NOT_INITIALIZED", "[cublas]") {
  const cuda::DeviceBuffer<float> data = zeros_on_device<float>(12);
  CHECK(call(Arguments{nullptr}, data) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasSetStream(nullptr, nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
  CHECK(cublasDestroy(nullptr) == CUBLAS_STATUS_NOT_INITIALIZED);
}

__global__ void fill(float* values, float value) { values[threadIdx.x] = value; }

TEST_CASE("products run in their stream, in order, and read alpha and beta at the call",
          "[cublas]") {
  constexpr int size = 4, count = size * size;
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  const cuda::DeviceBuffer<float> input = zeros_on_device<float>(count);
  const cuda::DeviceBuffer<float> output = zeros_on_device<float>(count);
  float alpha = 2, beta = 0;
  const auto multiply = [&] {
    return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &alpha, input.data(), size,
                       input.data(), size, &beta, output.data(), size);
  };
  REQUIRE(multiply() == CUBLAS_STATUS_SUCCESS);  // the first call may load code, which waits
  stream.synchronize();

  Gate gate(stream);
  cuda::launch<fill>({stream, 1, count}, input.data(), 3);
  CHECK(multiply() == CUBLAS_STATUS_SUCCESS);
  alpha = beta = -1000;
  cuda::launch<fill>({stream, 1, count}, input.data(), 100);
  CHECK(stays_pending(stream));
  gate.open();
  CHECK(read_back(output) == std::vector<float>(count, 2 * 4 * 3 * 3));
  CHECK(read_back(input) == std::vector<float>(count, 100));
  (void)cudaGetLastError();
}

TEST_CASE("two handles work in two streams at once", "[cublas]") {
  constexpr int size = 48, count = size * size;
  const cuda::Stream first, second;
  const cuda::Blas first_blas(first), second_blas(second);
  const cuda::DeviceBuffer<double> ones = on_device(std::vector<double>(count, 1));
  const cuda::DeviceBuffer<double> one_sum = zeros_on_device<double>(count);
  const cuda::DeviceBuffer<double> two_sum = zeros_on_device<double>(count);
  const double one = 1, two = 2;
  for (int repeat = 0; repeat < 20; ++repeat) {
    CHECK(cublasDgemm(first_blas, CUBLAS_OP_N, CUBLAS_OP_N, size, size, size, &one, ones.data(),
                      size, ones.data(), size, &one, one_sum.data(),
                      size) == CUBLAS_STATUS_SUCCESS);
    CHECK(cublasDgemm(second_blas, CUBLAS_OP_T, CUBLAS_OP_N, size, size, size, &two, ones.data(),
                      size, ones.data(), size, &one, two_sum.data(),
                      size) == CUBLAS_STATUS_SUCCESS);
  }
  CHECK(read_back(one_sum) == std::vector<double>(count, 20 * size));
  CHECK(read_back(two_sum) == std::vector<double>(count, 40 * size));
}

}  // namespace
}  // namespace ddp::conformance
