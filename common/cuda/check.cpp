#include "common/cuda/check.hpp"

#include <string>

#include "common/errors.hpp"

namespace ddp::cuda {
namespace {

std::string location(const std::source_location& where) {
  return std::string(where.file_name()) + ":" + std::to_string(where.line());
}

}  // namespace

void check(cudaError_t status, std::source_location where) {
  if (status == cudaSuccess) return;
  throw DeviceError(location(where) + ": " + cudaGetErrorName(status) + " (" +
                    std::to_string(static_cast<int>(status)) + "): " + cudaGetErrorString(status));
}

void check(cublasStatus_t status, std::source_location where) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  throw DeviceError(location(where) + ": " + cublasGetStatusName(status) + " (" +
                    std::to_string(static_cast<int>(status)) +
                    "): " + cublasGetStatusString(status));
}

}  // namespace ddp::cuda
