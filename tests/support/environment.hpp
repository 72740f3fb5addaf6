#pragma once

#include <cstdlib>
#include <optional>
#include <string>

namespace ddp {

/// Sets an environment variable, or removes it where `value` is empty, until the end of the scope.
class ScopedVariable {
 public:
  ScopedVariable(const std::string& name, const std::optional<std::string>& value) : name_(name) {
    if (const char* const previous = std::getenv(name.c_str())) previous_ = previous;
    set(value);
  }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;
  ~ScopedVariable() { set(previous_); }

 private:
  void set(const std::optional<std::string>& value) {
    if (value) {
      setenv(name_.c_str(), value->c_str(), 1);
    } else {
      unsetenv(name_.c_str());
    }
  }
  std::string name_;
  std::optional<std::string> previous_;
};

}  // namespace ddp
