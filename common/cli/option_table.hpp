#pragma once

#include <fmt/format.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace ddp {

enum class Shown { in_help, in_help_all };

/// The options of one program. CLI11 splits the command line and prints the help; the values are
/// read by our own strict readers. Only option_table.cpp sees CLI11: it takes long to compile.
class OptionTable {
 public:
  OptionTable(const std::string& description, const std::string& program);
  OptionTable(const OptionTable&) = delete;
  OptionTable& operator=(const OptionTable&) = delete;
  ~OptionTable();

  /// `read` gets the text of the value, and throws OptionError where that is not allowed.
  template <class Value>
  void add(Shown shown, const std::string& name, const std::string& type,
           const Value& default_value, const std::string& description,
           std::function<void(const std::string&)> read) {
    add_option(shown, name, type, fmt::format("{} ({})", description, default_value),
               std::move(read));
  }
  void add_flag(Shown shown, const std::string& name, bool& value, const std::string& description);

  /// Reads the values, or answers --help, --help-all and --version with the text that this returns.
  /// Throws OptionError, with the names of all options where one is unknown.
  std::optional<std::string> parse(int argc, const char* const* argv, const std::string& version);

 private:
  struct Parser;

  void add_option(Shown shown, const std::string& name, const std::string& type,
                  const std::string& meaning, std::function<void(const std::string&)> read);

  std::unique_ptr<Parser> parser_;
};

}  // namespace ddp
