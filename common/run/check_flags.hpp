#pragma once

#include <cstdint>

#include "common/run/ranks.hpp"

namespace ddp {

/// Throws what the flags of a step say, or what its loss says: InputError or NonFiniteError, with
/// the step and the first rank that saw it (`raised_by`, as in StepScalars). Every rank sees the
/// same ones, so with several ranks it is an AgreedError of the same code.
void check_flags(const Ranks& ranks, std::int64_t step, unsigned flags, unsigned raised_by,
                 double loss);

}  // namespace ddp
