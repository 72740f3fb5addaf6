#pragma once

#include <nccl.h>

#include <chrono>
#include <source_location>

#include "common/mpi/communicator.hpp"

namespace ddp::nccl {

/// NCCL's communicator over all ranks of the job, each with its current device.
///
/// NCCL has no launcher: the ranks find each other by a unique id, which rank 0 makes and MPI
/// carries to the others. Nor does it notice that a rank has failed before it came: the others
/// would wait for ever. So the ranks agree through MPI first, and the communicator is a
/// non-blocking one (`blocking = 0`): its calls return at once with ncclInProgress, and whoever
/// made them polls, which leaves room for a deadline.
class Communicator {
 public:
  /// Collective. Throws PeerError where it is not done after `deadline`; AgreedError on all ranks
  /// where one of them fails. Its first all-reduce, of one number, is done here, so that no
  /// connection is made in the first step.
  Communicator(const mpi::Communicator& ranks, std::chrono::duration<double> deadline);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  /// For a job that goes well. After a failure nothing is unwound (common/mpi/failure.hpp).
  ~Communicator();

  ncclComm_t handle() const { return comm_; }

  /// Waits until the communicator has taken the call that returned `result`: until the work is in
  /// its stream, not until it is done. Throws PeerError where it fails or takes too long.
  void finish(ncclResult_t result,
              std::source_location where = std::source_location::current()) const;

 private:
  ncclComm_t comm_ = nullptr;
  const std::chrono::duration<double> deadline_;
};

}  // namespace ddp::nccl
