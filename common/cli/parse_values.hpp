#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "common/cli/option_names.hpp"
#include "common/errors.hpp"

namespace ddp {

/// Readers for the value of one option. They are strict: the whole text counts, "3x", " 3", "" and
/// "0x10" are no numbers. Each throws OptionError with the option, the value and what is allowed.

/// The message of all of them.
[[noreturn]] void refuse_value(std::string_view option, std::string_view text,
                               std::string_view allowed);

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t least,
                           std::int64_t most);

std::uint64_t parse_seed(std::string_view option, std::string_view text);

/// Which finite numbers an option takes.
enum class NumberRange { positive, not_negative, below_one };  // the last: at least 0, less than 1
double parse_number(std::string_view option, std::string_view text, NumberRange range);

/// Sizes of layers, input first: 784-512-256-10; 512x8 stands for eight layers of 512.
std::vector<int> parse_layers(std::string_view option, std::string_view text);

template <class Choice>
Choice parse_choice(std::string_view option, std::string_view text) {
  std::string allowed = "one of";
  for (const auto& [name, value] : choices<Choice>) {
    if (name == text) return value;
    allowed += (allowed == "one of" ? " " : ", ") + std::string(name);
  }
  refuse_value(option, text, allowed);
}

}  // namespace ddp
