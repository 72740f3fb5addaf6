#pragma once

#include "common/cli/options.hpp"

namespace ddp {

/// Whether MPI is given device pointers (true) or data goes through pinned host memory (false), for
/// --mpi-buffers. `automatic` asks the MPI library, which on most machines may not take them: it
/// would read device memory as if it were host memory and crash. `device` where the library does
/// not know CUDA is refused with OptionError, but for simulated devices, whose memory is host
/// memory.
bool pass_device_pointers(MpiBuffers choice, bool simulated);

}  // namespace ddp
