#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string_view>

namespace ddp {

/// A fault that a test or a lesson plants in a run, by the environment variable
/// DDP_FAULT=rank:step:kind, for instance 0:3:throw or 0:3:delay-ms:50.
struct Fault {
  enum class Kind {
    throw_exception,  ///< `throw`: an exception that nobody expects
    error_return,     ///< `return`: the error path of a file that cannot be read
    kill,             ///< the process gets SIGKILL
    stall,            ///< sleeps for five minutes
    nan,              ///< the first input of the batch becomes NaN ...
    inf,              ///< ... or infinite
    delay,            ///< `delay-ms:MS`: sleeps once
  };
  int rank;
  std::int64_t step;
  Kind kind;
  std::chrono::milliseconds delay{};
};

/// The fault that DDP_FAULT asks of `rank`; empty where it is unset or names another rank. Throws
/// OptionError where it has another form or a rank that does not exist: a fault that can never
/// happen would make a test of failure pass.
std::optional<Fault> fault_from_environment(int rank, int world_size);

/// The same from a text. `text` is what DDP_FAULT holds.
Fault parse_fault(std::string_view text, int world_size);

/// The value that the fault puts into the first input of the batch of `step`.
std::optional<double> faulty_input(const std::optional<Fault>& fault, std::int64_t step);

/// Does what the fault does at the end of `step`: throws, sleeps, kills, or nothing.
void trigger(const std::optional<Fault>& fault, std::int64_t step);

}  // namespace ddp
