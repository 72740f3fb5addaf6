// Communicators, and the calls that are about the communicator itself.

#include "nccl_communicator.hpp"

#include <sched.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "nccl_bootstrap.hpp"
#include "nccl_diagnose.hpp"
#include "nccl_group.hpp"
#include "quiet_mutex.hpp"
#include "settings.hpp"
#include "simgpu/runtime_api.h"

namespace simgpu::nccl {
namespace {

struct Table {
  QuietMutex mutex;
  std::map<ncclComm*, std::shared_ptr<ncclComm>> communicators;
};

Table& table() {
  static Table& made = *new Table;
  return made;
}

void forget(ncclComm* comm) {
  QuietLock lock(table().mutex);
  table().communicators.erase(comm);
}

int available_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

ncclResult_t init_rank(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                       const ncclConfig_t* config) {
  const auto wrong = [](const std::string& text) {
    return note_in_group(failure(ncclInvalidArgument, "ncclCommInitRank: " + text));
  };
  if (handle == nullptr) return wrong("a null pointer instead of a place for the communicator");
  *handle = nullptr;
  if (ranks < 1 || ranks > max_ranks) return wrong(std::to_string(ranks) + " ranks");
  if (rank < 0 || rank >= ranks) {
    return wrong("rank " + std::to_string(rank) + " of " + std::to_string(ranks));
  }
  if (!looks_made(id)) return wrong("the unique id is not one that ncclGetUniqueId made");
  bool blocking = true;
  if (config != nullptr) {
    const ncclConfig_t initial = NCCL_CONFIG_INITIALIZER;
    if (config->size != initial.size || config->magic != initial.magic) {
      return wrong("a configuration that was not started from NCCL_CONFIG_INITIALIZER");
    }
    if (config->blocking != NCCL_CONFIG_UNDEF_INT) {
      if (config->blocking != 0 && config->blocking != 1) {
        return wrong("blocking = " + std::to_string(config->blocking) + ", expected 0 or 1");
      }
      blocking = config->blocking == 1;
    }
  }
  const auto [device, error] = current();
  if (error != cudaSuccess) {
    return note_in_group(failure(ncclUnhandledCudaError,
                                 std::string("ncclCommInitRank: ") + cudaGetErrorString(error)));
  }
  (void)link_setting();  // complains now, if at all
  auto comm = std::make_shared<ncclComm>(*device, rank, ranks, blocking);
  {
    QuietLock lock(table().mutex);
    table().communicators[comm.get()] = comm;
  }
  *handle = comm.get();
  if (initialise_in_group(comm, id)) return ncclSuccess;
  if (!blocking) {
    initialise_later(comm, id);
    return ncclInProgress;
  }
  const ncclResult_t result = initialise(*comm, id);
  if (result != ncclSuccess) {
    forget(comm.get());
    *handle = nullptr;
  }
  return result;
}

/// What ends a communicator's use by this rank.
void leave(ncclComm& comm, Departure departure) {
  if (comm.shared.mapped()) comm.self().departure = departure;
  forget(&comm);
}

}  // namespace

std::shared_ptr<ncclComm> find(ncclComm_t handle) {
  QuietLock lock(table().mutex);
  const auto found = table().communicators.find(handle);
  return found == table().communicators.end() ? nullptr : found->second;
}

std::size_t live_communicators() {
  QuietLock lock(table().mutex);
  return table().communicators.size();
}

ncclResult_t check_ready(const ncclComm* comm, const std::string& call) {
  if (comm == nullptr) return failure(ncclInvalidArgument, call + ": no such communicator");
  if (comm->state == ncclInProgress || comm->result_unread) {
    return failure(ncclInvalidArgument, call +
                                            ": the communicator's last call is in progress; poll "
                                            "ncclCommGetAsyncError until it says ncclSuccess");
  }
  if (comm->failed()) {
    return failure(ncclInvalidUsage,
                   call + ": the communicator has failed; it takes ncclCommAbort");
  }
  if (comm->finalized) return failure(ncclInvalidUsage, call + ": the communicator was finalized");
  return ncclSuccess;
}

ncclResult_t started(ncclComm& comm) {
  if (comm.blocking) return ncclSuccess;
  comm.result_unread = true;
  return ncclInProgress;
}

Spin::Spin(int ranks) {
  static const int cores = available_cores();
  left_ = ranks <= cores ? 400 : 20;
}

bool Spin::again() {
#if defined(__x86_64__)
  for (int i = 0; i < 4; ++i) __builtin_ia32_pause();
#endif
  return left_-- > 0;
}

bool wait_for(ncclComm& comm, Counter& counter, std::uint32_t number, int peer,
              const Signature& call) {
  for (Spin spin(comm.ranks); !counter.reached(number) && spin.again();) {
  }
  if (counter.reached(number)) return !comm.stopped();
  Patience patience(comm, call);
  for (;;) {
    const std::uint32_t seen = counter.value();
    if (comm.stopped()) return false;
    if (counter.reached(number)) return true;
    counter.sleep(seen);
    const auto came = [&] { return counter.value() != seen; };
    if (!came() && !patience.last({&peer, 1}, came)) return false;
  }
}

}  // namespace simgpu::nccl

bool ncclComm::wait_until_idle() {
  while (!idle() && !stopped()) std::this_thread::sleep_for(std::chrono::microseconds(100));
  return idle();
}

using simgpu::nccl::check_ready;
using simgpu::nccl::failure;
using simgpu::nccl::find;

ncclResult_t ncclGetUniqueId(ncclUniqueId* unique_id) {
  if (unique_id == nullptr) return failure(ncclInvalidArgument, "ncclGetUniqueId: a null pointer");
  if (simgpu::nccl::serve(*unique_id)) return ncclSuccess;
  return failure(ncclSystemError, std::string("ncclGetUniqueId: ") + std::strerror(errno));
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId unique_id, int rank) {
  return simgpu::nccl::init_rank(comm, ranks, unique_id, rank, nullptr);
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId unique_id, int rank,
                                    ncclConfig_t* config) {
  return simgpu::nccl::init_rank(comm, ranks, unique_id, rank, config);
}

namespace {

ncclResult_t get(ncclComm_t handle, int* value, const char* call, int (*of)(const ncclComm&)) {
  const auto comm = find(handle);
  if (const auto result = check_ready(comm.get(), call); result != ncclSuccess) return result;
  if (value == nullptr) return failure(ncclInvalidArgument, std::string(call) + ": a null pointer");
  *value = of(*comm);
  return ncclSuccess;
}

}  // namespace

ncclResult_t ncclCommCount(const ncclComm_t comm, int* ranks) {
  return get(comm, ranks, "ncclCommCount", [](const ncclComm& c) { return c.ranks; });
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return get(comm, rank, "ncclCommUserRank", [](const ncclComm& c) { return c.rank; });
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return get(comm, device, "ncclCommCuDevice", [](const ncclComm& c) { return c.device.ordinal; });
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t handle, ncclResult_t* error) {
  const auto comm = find(handle);
  if (comm == nullptr || error == nullptr) {
    return failure(ncclInvalidArgument, "ncclCommGetAsyncError: no such communicator");
  }
  *error = comm->state;
  if (*error == ncclSuccess && comm->finalized && !comm->idle()) *error = ncclInProgress;
  comm->result_unread = false;
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t handle) {
  const auto comm = find(handle);
  const auto ready = check_ready(comm.get(), "ncclCommFinalize");
  if (ready != ncclSuccess) return comm && comm->finalized ? ncclInvalidArgument : ready;
  comm->finalized = true;
  if (!comm->blocking) return simgpu::nccl::started(*comm);
  return comm->wait_until_idle() ? ncclSuccess : comm->state.load();
}

ncclResult_t ncclCommDestroy(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto comm = find(handle);
  if (comm == nullptr || !comm->finalized) {
    const auto ready = check_ready(comm.get(), "ncclCommDestroy");
    if (ready != ncclSuccess) return ready;
  }
  comm->wait_until_idle();
  if (comm->failed()) return check_ready(comm.get(), "ncclCommDestroy");
  simgpu::nccl::leave(*comm, simgpu::nccl::destroyed);
  return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t handle) {
  if (handle == nullptr) return ncclSuccess;
  const auto comm = find(handle);
  if (comm == nullptr) return failure(ncclInvalidArgument, "ncclCommAbort: no such communicator");
  comm->abort_requested = true;
  while (comm->initialising || comm->running) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  simgpu::nccl::leave(*comm, simgpu::nccl::aborted);
  return ncclSuccess;
}
