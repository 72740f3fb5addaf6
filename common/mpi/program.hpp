#pragma once

#include <string_view>

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::mpi {

/// The whole of the `main` of a stage whose ranks train together: reads the options, starts MPI,
/// takes this rank's device, trains, and prints the table of results on rank 0. Returns the exit
/// code. `train` gets options.device set to its rank's device, which is the current one.
///
/// Each rank is a process; a launcher starts them (tools/launch.py, mpirun, srun), and without one
/// the program is a job of one rank. What goes wrong is one line on stderr, `error: ...`, and ends
/// all ranks; see Note [How a rank fails] and Note [Signals in a job of ranks].
int run_program(int argc, char** argv, std::string_view stage,
                TrainingResult (*train)(const Options&, const Communicator&));

}  // namespace ddp::mpi
