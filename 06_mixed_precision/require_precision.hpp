#pragma once

#include "common/cli/options.hpp"
#include "common/run/ranks.hpp"

namespace ddp {

/// Throws AgreedError (alone DeviceError) where a rank's GPU cannot compute in `precision`: bf16
/// takes a compute capability of 8.0. Collective.
void require_precision(Precision precision, const Ranks& ranks);

}  // namespace ddp
