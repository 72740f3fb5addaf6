#pragma once

#include <optional>
#include <string>

namespace ddp {

/// Why this test program cannot run here; empty where it can.
std::optional<std::string> reason_to_skip();

/// Whether its tests use a device.
bool needs_device();

}  // namespace ddp
