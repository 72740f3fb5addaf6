#pragma once

#include <cstddef>

namespace ddp {

/// The largest block that `new` was asked for since this was last set to 0, in a program that is
/// linked with largest_allocation.cpp. Not for several threads.
extern std::size_t largest_allocation;

}  // namespace ddp
