#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::ring_allreduce {

/// Trains as stage 03 does, with the all-reduce of options.allreduce. Collective;
/// all ranks return the same result, but for the metrics and the checkpoint, which rank 0 writes.
TrainingResult train(const Options& options, const mpi::Communicator& ranks);

}  // namespace ddp::ring_allreduce
