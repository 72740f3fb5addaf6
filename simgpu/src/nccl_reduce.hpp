#pragma once

#include <cstddef>
#include <span>

#include "nccl.h"

namespace simgpu::nccl {

/// out[i] = inputs[0][i] op inputs[1][i] op ..., in this order, rounded to the type after each
/// step, so that the result is that of adding the ranks up one by one. `out` may be one of the
/// inputs, and `second_out`, unless null, gets the same. ncclAvg as NCCL computes it: floats are
/// multiplied by 1/ranks, rounded to the type, before they are added; integers are added and then
/// divided.
void reduce(std::span<const std::byte* const> inputs, std::byte* out, std::byte* second_out,
            std::size_t count, ncclDataType_t type, ncclRedOp_t op);

/// As memcpy, but where TSan does not see it: for the memory that ranks share.
void copy_bytes(void* to, const void* from, std::size_t bytes);

}  // namespace simgpu::nccl
