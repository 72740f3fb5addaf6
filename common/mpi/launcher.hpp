#pragma once

#include <optional>

namespace ddp::mpi {

/// What the launcher (mpirun, srun, ...) tells a process by its environment, before MPI starts:
/// empty where it tells nothing, for instance because there is no launcher. Variables of MPI
/// libraries win over Slurm's, which inside a job script describe the script.
std::optional<int> launcher_rank();
/// The number of this process among those of its host.
std::optional<int> launcher_local_rank();

/// To be called before MPI starts. Without a launcher Open MPI starts a daemon for the one rank,
/// looks for networks, and makes a folder in /tmp that all of the user's jobs share: a third of a
/// second, and two that begin or end at once can trip over each other's folder. A rank that is
/// alone needs none of that, so Open MPI is told so, by variables that the user can set otherwise.
void spare_a_rank_alone();

}  // namespace ddp::mpi
