#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::naive_allreduce {

/// Trains as stage 02 does, each rank its shard of every batch, on a GPU of its own. Collective;
/// all ranks return the same result, but for the metrics and the checkpoint, which rank 0 writes.
TrainingResult train(const Options& options, const mpi::Communicator& ranks);

}  // namespace ddp::naive_allreduce
