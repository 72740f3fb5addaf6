#pragma once

namespace ddp::bench {

/// Makes Open MPI use its own algorithm `number` (1 to 6; 0: its free choice) with segments of so
/// many bytes for MPI_Allreduce on communicators that are duplicated from now on. It writes Open
/// MPI's control variables through MPI's tools interface, so that algorithms can take turns in one
/// process. Throws OptionError where this MPI library has no such variables.
void choose_library_algorithm(int number, int segment_bytes);

}  // namespace ddp::bench
