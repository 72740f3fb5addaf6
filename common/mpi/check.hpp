#pragma once

#include <source_location>

namespace ddp::mpi {

/// Throws PeerError with MPI's text for the status and the caller's file and line, unless `status`
/// is MPI_SUCCESS. Communicators of this project return errors (MPI_ERRORS_RETURN), so that the
/// message can name the rank and what it was doing.
void check(int status, std::source_location where = std::source_location::current());

}  // namespace ddp::mpi
