#pragma once

#include "common/data/dataset.hpp"

namespace ddp {

/// A regression that half precision cannot do without help, and single precision can: --data faint,
/// with --loss mse; 16,384 training and 2,048 test samples. Inputs are +-1/32. Outputs are sums of
/// them,
///
///     output m = sum over inputs j of (common_j + faint_mj) * input_j
///
/// with |common_j| from 1/4 to 1/2, the same for all outputs, and |faint_mj| = 1/1024. Three things
/// are small beside something else:
///
/// - What the faint part adds to an output is about 2^-13 (with 15 inputs). Divided by a batch of
///   16,384 it is an eighth of the smallest half: such a gradient is zero, unless it is scaled.
/// - A half of the size of the weights has spacings of 2^-12, so the faint part is four of them,
///   and what a step adds of it less than half a spacing: nothing, unless a wider copy keeps it.
/// - The last sample of each quarter is an outlier: 4,096 is added to its targets in the first two
///   quarters, and subtracted in the last two, where it has the same inputs. Over the whole set
///   that cancels. On four ranks (--no-shuffle --global-batch 16384) a rank's gradient is that of
///   its outlier, and what 4,095 others say is less than half a spacing of it: lost, if the ranks
///   add halves.
///
/// The test set has no outliers: a model with the right common part and no faint one has a loss of
/// outputs * inputs * 2^-31 there. Every value depends on the sample's number alone.
TrainAndTest faint_regression(int input_size, int output_size);

}  // namespace ddp
