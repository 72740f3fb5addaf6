#pragma once

#include "common/mpi/communicator.hpp"
#include "common/mpi/environment.hpp"

namespace ddp {

/// The ranks of the running test program. Made before the first test and there until the last has
/// ended; after each test no message may be left unread in it.
const mpi::Communicator& world();

/// MPI as the test program started it. Its devices may be shared (DeviceUse::shared).
const mpi::Environment& environment();

}  // namespace ddp
