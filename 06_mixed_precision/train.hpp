#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp::mixed_precision {

/// Trains as stage 05 does, with layers that compute in options.precision. Collective; all ranks
/// return the same result, but for the metrics and the checkpoint, which rank 0 writes. Throws
/// AgreedError where bf16 is asked for and a rank's GPU has none.
TrainingResult train(const Options& options, const mpi::Communicator& ranks);

}  // namespace ddp::mixed_precision
