#pragma once

#include <optional>
#include <ostream>
#include <string_view>

#include "common/cli/options.hpp"

namespace ddp {

/// Reads a program's command line. Empty where --help, --help-all or --version was asked for and
/// answered on `out`. Throws OptionError, which names the option, the value and what is allowed.
std::optional<Options> parse_options(int argc, const char* const* argv, std::string_view stage,
                                     std::ostream& out);

}  // namespace ddp
