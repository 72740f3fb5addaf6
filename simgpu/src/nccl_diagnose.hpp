#pragma once
// SIMGPU_NCCL=diagnose: what NCCL does not tell. Where it would hang or mix up values, these say
// what does not fit together, and the communicator fails.

#include <chrono>
#include <functional>
#include <span>

#include "nccl_call.hpp"
#include "nccl_communicator.hpp"

namespace simgpu::nccl {

/// Compares the collective call that this rank begins with that of the others; false: they differ.
bool agree(ncclComm& comm, const Signature& call);

/// As above for a message: what the sender said of it and what this rank, the receiver, expects.
bool agree_on_message(ncclComm& comm, const Signature& sent, const Signature& expected);

/// Looks after a wait that takes long: has a peer ended, which of them is waited for in vain?
class Patience {
 public:
  Patience(ncclComm& comm, const Signature& call) : comm_(comm), call_(call) {}
  /// To be called now and then with who is being waited for. False: one of them will never come.
  /// `came` tells whether what is waited for has happened, for a rank may go right after it.
  bool last(std::span<const int> peers, const std::function<bool()>& came);

 private:
  ncclComm& comm_;
  const Signature& call_;
  const std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
  bool said_ = false;
};

/// Prints one line and makes the communicator fail.
void fail(ncclComm& comm, ncclResult_t result, const std::string& text);

}  // namespace simgpu::nccl
