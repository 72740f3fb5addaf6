#include "common/cli/option_table.hpp"

#include <CLI/CLI.hpp>
#include <utility>
#include <vector>

#include "common/errors.hpp"

namespace ddp {

struct OptionTable::Parser {
  Parser(const std::string& description, const std::string& program) : app(description, program) {}

  void note(CLI::Option* option, Shown shown) {
    names += (names.empty() ? "" : ", ") + option->get_name();
    if (shown == Shown::in_help_all) rest.push_back(option);
  }

  CLI::App app;
  std::string names;               // of all options, for the message about an unknown one
  std::vector<CLI::Option*> rest;  // what --help leaves out
};

OptionTable::OptionTable(const std::string& description, const std::string& program)
    : parser_(std::make_unique<Parser>(description, program)) {
  CLI::App& app = parser_->app;
  app.set_help_flag("-h,--help", "the options that matter most");
  app.set_help_all_flag("--help-all", "all options");
  app.footer("The value in parentheses is taken where an option is not given.");
  app.allow_extras();
}

OptionTable::~OptionTable() = default;

void OptionTable::add_option(Shown shown, const std::string& name, const std::string& type,
                             const std::string& meaning,
                             std::function<void(const std::string&)> read) {
  const auto check_and_read = [name, type, read = std::move(read)](const std::string& text) {
    // --metrics --steps 3 is a forgotten name, not a file called --steps.
    if (text.empty() || text.starts_with("--")) {
      throw OptionError(name + " needs a value: " + name + " " + type);
    }
    read(text);
  };
  CLI::Option* const option =
      parser_->app.add_option_function<std::string>(name, check_and_read, meaning);
  option->type_name(type);
  parser_->note(option, shown);
}

void OptionTable::add_flag(Shown shown, const std::string& name, bool& value,
                           const std::string& description) {
  parser_->note(parser_->app.add_flag(name, value, description)->disable_flag_override(), shown);
}

std::optional<std::string> OptionTable::parse(int argc, const char* const* argv,
                                              const std::string& version) {
  CLI::App& app = parser_->app;
  app.set_version_flag("--version", version, "the version of this program");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    // Not earlier: CLI11 leaves hidden options without a name in its messages too.
    for (CLI::Option* const option : parser_->rest) option->group("");
    return app.help();
  } catch (const CLI::CallForAllHelp&) {
    return app.help();
  } catch (const CLI::CallForVersion&) {
    return version + "\n";
  } catch (const CLI::ParseError& error) {
    throw OptionError(error.what());
  }
  if (const std::vector<std::string> unknown = app.remaining(); !unknown.empty()) {
    throw OptionError("unknown option '" + unknown.front() + "'; the options are " +
                      parser_->names);
  }
  return std::nullopt;
}

}  // namespace ddp
