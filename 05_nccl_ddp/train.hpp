#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::nccl_ddp {

/// Trains as stage 04 does, with gradients all-reduced in buckets, by NCCL while the backward pass
/// goes on. Collective; all ranks return the same result, but for the metrics and the checkpoint,
/// which rank 0 writes.
TrainingResult train(const Options& options, const mpi::Communicator& ranks);

}  // namespace ddp::nccl_ddp
