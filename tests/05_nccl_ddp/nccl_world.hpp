#pragma once

#include "05_nccl_ddp/communicator.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {

/// NCCL's communicator of the running test program, made at the first call: all ranks make it
/// together. It is there until the program ends.
inline const nccl::Communicator& nccl_world() {
  static const auto* const communicator = new nccl::Communicator(world(), std::chrono::seconds(20));
  return *communicator;
}

}  // namespace ddp
