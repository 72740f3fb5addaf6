#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <source_location>

namespace ddp::cuda {

/// Throws DeviceError with the error's name, its text and the caller's file and line, unless
/// `status` is success. Every CUDA and cuBLAS call goes through here.
void check(cudaError_t status, std::source_location where = std::source_location::current());
void check(cublasStatus_t status, std::source_location where = std::source_location::current());

}  // namespace ddp::cuda
