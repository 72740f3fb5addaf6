#pragma once

#include <string>

namespace ddp {

/// The message of the `Exception` that `action` throws. It lets any other exception pass, so that a
/// wrong kind of error fails the test; "(nothing was thrown)" if nothing is.
template <class Exception, class Action>
std::string error_of(const Action& action) {
  try {
    action();
  } catch (const Exception& error) {
    return error.what();
  }
  return "(nothing was thrown)";
}

}  // namespace ddp
