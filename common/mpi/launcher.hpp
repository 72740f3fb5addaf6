#pragma once

#include <optional>

namespace ddp::mpi {

/// What the launcher (mpirun, srun, ...) tells a process by its environment, before MPI starts:
/// empty where it tells nothing, for instance because there is no launcher. Variables of MPI
/// libraries win over Slurm's, which inside a job script describe the script.
std::optional<int> launcher_rank();
/// The number of this process among those of its host.
std::optional<int> launcher_local_rank();

}  // namespace ddp::mpi
