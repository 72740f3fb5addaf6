// How the ranks of a communicator meet.

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <thread>

#include "nccl_bootstrap.hpp"
#include "nccl_communicator.hpp"
#include "simgpu/runtime_api.h"

namespace simgpu::nccl {
namespace {

DeviceIdentity identity(const Device& device) {
  DeviceIdentity found;
  gethostname(found.host.data(), found.host.size() - 1);
  cudaDeviceProp properties{};
  (void)cudaGetDeviceProperties(&properties, device.ordinal);
  std::memcpy(found.uuid.data(), properties.uuid.bytes, found.uuid.size());
  return found;
}

/// Tells all ranks that they cannot work together; what the first one says counts.
void refuse(Header& header, const std::string& text) {
  if (header.refusals.fetch_add(1) != 0) return;
  std::snprintf(header.refusal.data(), header.refusal.size(), "%s", text.c_str());
  header.refused.raise_to(1);
}

/// What is wrong with two ranks that have both come; empty: nothing.
std::string conflict(const Member& one, int rank, const Member& other, int other_rank) {
  if (one.identity != other.identity) return {};
  return "ranks " + std::to_string(rank) + " and " + std::to_string(other_rank) +
         " would both use device " + std::to_string(other.device) + " of host " +
         one.identity.host.data() + "; each rank needs a device of its own";
}

/// Waits until all have come and found nothing wrong.
ncclResult_t meet(ncclComm& comm) {
  Header& header = comm.shared.header();
  const std::string where = "ncclCommInitRank: ";
  for (int other = 0; other < comm.ranks; ++other) {
    Counter& joined = comm.shared.member(other).joined;
    while (!joined.reached(1) && header.refusals == 0) {
      if (comm.abort_requested) return failure(ncclInternalError, where + "aborted");
      joined.sleep(0);
    }
  }
  // Each rank looks at all pairs, so that all say the same.
  for (int second = 1; second < comm.ranks && header.refusals == 0; ++second) {
    for (int first = 0; first < second; ++first) {
      const std::string wrong =
          conflict(comm.shared.member(first), first, comm.shared.member(second), second);
      if (!wrong.empty()) refuse(header, wrong);
    }
  }
  if (header.refusals == 0) return ncclSuccess;
  while (!header.refused.reached(1) && !comm.abort_requested) header.refused.sleep(0);
  return failure(ncclInvalidUsage, where + header.refusal.data());
}

ncclResult_t join(ncclComm& comm, const ncclUniqueId& id) {
  const std::string where = "ncclCommInitRank: ";
  const File memory = fetch_memory(id, comm.ranks, [&comm] { return comm.abort_requested.load(); });
  if (!memory) {
    return failure(ncclSystemError, where +
                                        "nobody answers for the unique id: the process that made "
                                        "it has ended, or all ranks of it have come before");
  }
  if (!comm.shared.map_header(memory.get())) {
    return failure(ncclSystemError, where + std::strerror(errno));
  }
  int ranks = 0;
  Header& head = comm.shared.header();
  if (!head.ranks.compare_exchange_strong(ranks, comm.ranks) && ranks != comm.ranks) {
    const std::string wrong = "rank " + std::to_string(comm.rank) + " says that there are " +
                              std::to_string(comm.ranks) + " ranks, another one " +
                              std::to_string(ranks);
    refuse(head, wrong);
    return failure(ncclInvalidUsage, where + wrong);
  }
  if (!comm.shared.map_everything(memory.get(), comm.ranks)) {
    return failure(ncclSystemError, where + std::strerror(errno));
  }
  Member& self = comm.self();
  if (self.taken.exchange(1) != 0) {
    const std::string wrong = "rank " + std::to_string(comm.rank) + " has come twice";
    refuse(comm.shared.header(), wrong);
    return failure(ncclInvalidUsage, where + wrong);
  }
  self.process = getpid();
  self.device = comm.device.ordinal;
  self.identity = identity(comm.device);
  self.joined.raise_to(1);
  return meet(comm);
}

}  // namespace

ncclResult_t initialise(ncclComm& comm, const ncclUniqueId& id) {
  const ncclResult_t result = join(comm, id);
  comm.state = result;
  return result;
}

void initialise_later(const std::shared_ptr<ncclComm>& comm, const ncclUniqueId& id) {
  comm->initialising = true;
  std::thread([comm, id] {
    initialise(*comm, id);
    comm->initialising = false;
  }).detach();
}

}  // namespace simgpu::nccl
