#pragma once

#include "common/cli/options.hpp"
#include "common/io/training_result.hpp"

namespace ddp::single_gpu {

/// Trains the MLP that `options` describe on one GPU, then evaluates it on the test set.
TrainingResult train(const Options& options);

}  // namespace ddp::single_gpu
