#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::scaling_rules {

/// Trains as stage 05 does, at a learning rate that follows from the global batch and the step.
/// Collective; all ranks return the same result, but for the metrics and the checkpoint, which rank
/// 0 writes. Throws OptionError for a warm-up that would go down.
TrainingResult train(const Options& options, const mpi::Communicator& ranks);

}  // namespace ddp::scaling_rules
