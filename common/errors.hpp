#pragma once

#include <stdexcept>
#include <string>

namespace ddp {

/// What a program returns to the shell. Tests and scripts tell failures apart by it.
enum class ExitCode : int {
  success = 0,
  failure = 1,  // an error that has no code of its own
  bad_option = 2,
  bad_input = 3,
  non_finite = 4,
  peer = 5,
  device = 6,
  interrupted = 130,  // 128 + SIGINT, as a shell reports it
};

/// Base of every error this project throws. Only `main` turns one into an exit code; everyone
/// else lets it pass. The message carries the facts: path, value, what was expected.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

/// An option that is unknown, malformed or contradicts another: names the option and what fits.
struct OptionError : Error {
  explicit OptionError(const std::string& message) : Error(ExitCode::bad_option, message) {}
};

/// A file or folder that is missing, damaged or does not fit: names the path.
struct InputError : Error {
  explicit InputError(const std::string& message) : Error(ExitCode::bad_input, message) {}
};

/// A loss, gradient or weight that is NaN or infinite: names the step.
struct NonFiniteError : Error {
  explicit NonFiniteError(const std::string& message) : Error(ExitCode::non_finite, message) {}
};

/// A peer that is gone, late or of another mind, or a collective that failed: names the ranks.
struct PeerError : Error {
  explicit PeerError(const std::string& message) : Error(ExitCode::peer, message) {}
};

/// An error that every rank has learnt of and throws alike: rank 0 alone tells it.
struct AgreedError : Error {
  AgreedError(ExitCode code, const std::string& message) : Error(code, message) {}
};

/// A call to CUDA, cuBLAS or NCCL that failed, or no usable device.
struct DeviceError : Error {
  explicit DeviceError(const std::string& message) : Error(ExitCode::device, message) {}
};

}  // namespace ddp
