#pragma once

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "common/errors.hpp"

namespace ddp {

enum class Shown { in_help, in_help_all };

// CLI11 splits the command line and prints the help; the values are read by our own strict readers.
class OptionTable {
 public:
  explicit OptionTable(CLI::App& app) : app_(app) {}

  template <class Value>
  void add(Shown shown, const std::string& name, const std::string& type,
           const Value& default_value, const std::string& description,
           std::function<void(const std::string&)> read) {
    const auto check_and_read = [name, type, read = std::move(read)](const std::string& text) {
      // --metrics --steps 3 is a forgotten name, not a file called --steps.
      if (text.empty() || text.starts_with("--")) {
        throw OptionError(fmt::format("{} needs a value: {} {}", name, name, type));
      }
      read(text);
    };
    const std::string meaning = fmt::format("{} ({})", description, default_value);
    CLI::Option* const option =
        app_.add_option_function<std::string>(name, check_and_read, meaning);
    option->type_name(type);
    note(option, shown);
  }

  void add_flag(Shown shown, const std::string& name, bool& value, const std::string& description) {
    note(app_.add_flag(name, value, description)->disable_flag_override(), shown);
  }

  /// Of all options, for the message about an unknown one.
  const std::string& names() const { return names_; }

  /// For --help. Not earlier: CLI11 leaves hidden options without a name in its messages too.
  void hide_the_rest() {
    for (CLI::Option* const option : rest_) option->group("");
  }

 private:
  void note(CLI::Option* option, Shown shown) {
    names_ += (names_.empty() ? "" : ", ") + option->get_name();
    if (shown == Shown::in_help_all) rest_.push_back(option);
  }

  CLI::App& app_;
  std::string names_;
  std::vector<CLI::Option*> rest_;
};

}  // namespace ddp
