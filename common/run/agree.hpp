#pragma once

#include <functional>

#include "common/run/ranks.hpp"

namespace ddp {

/// Does `action` on every rank, then lets all ranks know how it went. If it throws on one of them,
/// all throw AgreedError with the code and the message of the first, so that nobody goes on and
/// waits for a rank that has given up. Collective; alone it is `action` and no more.
void on_all_ranks(const Ranks& ranks, const std::function<void()>& action);

}  // namespace ddp
