#pragma once

#include <string_view>

namespace ddp {

/// Version of this project, as CMakeLists.txt states it.
std::string_view project_version();

}  // namespace ddp
