#include "common/io/version.hpp"

namespace ddp {

std::string_view project_version() { return DDP_VERSION; }

}  // namespace ddp
