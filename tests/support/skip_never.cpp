#include "tests/support/skip.hpp"

namespace ddp {

std::optional<std::string> reason_to_skip() { return std::nullopt; }

bool needs_device() { return false; }

}  // namespace ddp
