#pragma once

#include <cstddef>

#include "library_types.h"

namespace simgpu {

/// floats[i] = halves[i], where `type` is CUDA_R_16F or CUDA_R_16BF. Exact; a
/// NaN remains one.
void widen(const void* halves, cudaDataType type, std::size_t count, float* floats);

/// halves[i] = floats[i], rounded to the nearest, ties to even.
void narrow(const float* floats, std::size_t count, cudaDataType type, void* halves);

}  // namespace simgpu
