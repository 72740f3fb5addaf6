#pragma once
// Stands in for NVIDIA's header of this name in the sim preset.

/// What the elements of a matrix are: real numbers of 16, 32 or 64 bits.
enum cudaDataType_t : int { CUDA_R_32F = 0, CUDA_R_64F = 1, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
using cudaDataType = cudaDataType_t;
