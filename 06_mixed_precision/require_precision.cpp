#include "06_mixed_precision/require_precision.hpp"

#include <cuda_runtime.h>

#include <string>

#include "common/cuda/check.hpp"
#include "common/errors.hpp"
#include "common/run/agree.hpp"

namespace ddp {

void require_precision(Precision precision, const Ranks& ranks) {
  on_all_ranks(ranks, [precision] {
    int device = 0, major = 0, minor = 0;
    cuda::check(cudaGetDevice(&device));
    cuda::check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device));
    cuda::check(cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, device));
    if (precision != Precision::bf16 || major >= 8) return;
    std::string text = "--precision bf16 needs a GPU of compute capability 8.0 or above; device ";
    text += std::to_string(device);
    text += " has ";
    text += std::to_string(major);
    text += ".";
    text += std::to_string(minor);
    throw DeviceError(text + ". --precision fp16 works there.");
  });
}

}  // namespace ddp
