#pragma once

#include "cublas_v2.h"

struct cublasContext {
  explicit cublasContext(int device_) : device(device_) {}
  const int device;
  cudaStream_t stream = nullptr;
  cublasMath_t math = CUBLAS_DEFAULT_MATH;
  cublasPointerMode_t pointer_mode = CUBLAS_POINTER_MODE_HOST;
};
