#pragma once

#include <cuda_runtime.h>

/// Inside a kernel: `DDP_DYNAMIC_SHARED(float, tile);` names the dynamic shared memory of the
/// block, whose size the launch gives in bytes. CUDA spells it as an extern array, which is not
/// C++.
#if defined(__CUDACC__)
#define DDP_DYNAMIC_SHARED(type, name)                                \
  extern __shared__ __align__(16) unsigned char ddp_dynamic_shared[]; \
  type* const name = reinterpret_cast<type*>(ddp_dynamic_shared)
#else
#define DDP_DYNAMIC_SHARED(type, name) \
  type* const name = static_cast<type*>(::simgpu::dynamic_shared_memory())
#endif
