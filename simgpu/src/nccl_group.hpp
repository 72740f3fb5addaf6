#pragma once

#include <memory>
#include <span>

#include "nccl_communicator.hpp"

namespace simgpu::nccl {

/// Tells the calling thread's group, if one is open, that a call of it was wrong; returns `result`.
ncclResult_t note_in_group(ncclResult_t result);

/// In a group, leaves the initialising to its end. False: no group is open.
bool initialise_in_group(const std::shared_ptr<ncclComm>& comm, const ncclUniqueId& id);

/// What a stream's thread does for a call of all ranks, and for the sends and receives of a group,
/// which progress together.
void run_collective(ncclComm& comm, const Call& call);
void run_messages(ncclComm& comm, std::span<const Call> messages);

}  // namespace simgpu::nccl
