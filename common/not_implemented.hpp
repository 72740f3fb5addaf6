#pragma once

#include <string>

#include "common/errors.hpp"

namespace ddp {

/// Thrown where a lab has a gap that its student has not filled yet; names the exercise.
struct NotImplemented : Error {
  explicit NotImplemented(const std::string& exercise)
      : Error(ExitCode::failure, "exercise " + exercise + " is not implemented") {}
};

/// Stands in place of an exercise's solution, also where that would return a value.
[[noreturn]] inline void not_implemented(const char* exercise) { throw NotImplemented(exercise); }

}  // namespace ddp
