#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"

namespace ddp::grad_accum {

/// Trains as stage 01 does, each batch in micro-batches of options.micro_batch samples.
TrainingResult train(const Options& options);

}  // namespace ddp::grad_accum
