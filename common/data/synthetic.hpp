#pragma once

#include "common/data/dataset.hpp"

namespace ddp {

/// Data drawn from a formula, for any layer sizes: 10,000 training and 2,000 test samples. Every
/// value depends on the sample's number alone, always from the same fixed key, so that --seed
/// changes the training but not the data.

/// Each class is a point in space, each sample its class's point plus noise. The points lie so far
/// apart (on average 4 times the noise, whatever the dimension) that a good model is right mostly.
TrainAndTest synthetic_classification(int input_size, int classes);

/// Normal inputs; target j is tanh of a weighted sum of up to 16 inputs, plus 5% noise.
TrainAndTest synthetic_regression(int input_size, int output_size);

}  // namespace ddp
