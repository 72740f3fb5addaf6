#pragma once

#include <cstdint>

#include "common/run/ranks.hpp"

namespace ddp {

/// Throws what the flags of a step say, or what its loss says: InputError or NonFiniteError, with
/// the step and the first rank that saw it (`raised_by`, as in StepScalars). Every rank sees the
/// same ones, so with several ranks it is an AgreedError of the same code. `loss_scale` is the
/// step's, 0 where there is none.
void check_flags(const Ranks& ranks, std::int64_t step, unsigned flags, unsigned raised_by,
                 double loss, double loss_scale);

}  // namespace ddp
