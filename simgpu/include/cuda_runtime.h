#pragma once
// Stands in for NVIDIA's header of this name in the sim preset: the same calls and kernels, run by
// the CPU. simgpu/README.md says what is simulated and what is not.

#include "simgpu/device_functions.h"
#include "simgpu/launch.h"
#include "simgpu/runtime_api.h"
#include "simgpu/types.h"
