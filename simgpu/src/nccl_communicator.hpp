#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "device.hpp"
#include "nccl_call.hpp"
#include "nccl_shared.hpp"
#include "nccl_window.hpp"
#include "quiet_mutex.hpp"

/// One rank's side of a communicator. Its operations run one after another, in the order of the
/// calls, on the threads of the streams that they were enqueued in.
struct ncclComm : std::enable_shared_from_this<ncclComm> {
  ncclComm(simgpu::Device& device_, int rank_, int ranks_, bool blocking_)
      : device(device_), rank(rank_), ranks(ranks_), blocking(blocking_) {}

  simgpu::Device& device;
  const int rank;
  const int ranks;
  const bool blocking;
  simgpu::nccl::SharedMemory shared;

  /// ncclInProgress until all ranks have met; then ncclSuccess, or why it is of no use any more.
  std::atomic<ncclResult_t> state{ncclInProgress};
  std::atomic<bool> abort_requested{false};
  std::atomic<bool> finalized{false};
  std::atomic<bool> result_unread{false};  // blocking = 0: a call's ncclInProgress, not yet polled
  std::atomic<bool> used{false};

  std::atomic<bool> initialising{false};    // by some thread, now
  std::atomic<std::uint32_t> enqueued{0};   // groups of calls ...
  std::atomic<std::uint32_t> completed{0};  // ... and how many of them have run, or never will
  simgpu::nccl::Counter turn{};             // how many groups have had their turn
  std::atomic<bool> running{false};
  simgpu::QuietMutex order;  // held while a group is enqueued

  // Of the operation that runs.
  std::uint32_t slots_filled = 0;  // turns of the slots so far; see nccl_collective.cpp
  std::uint32_t calls = 0;         // collective calls so far
  std::uint32_t window_calls = 0;  // all-reduces that tried to do without slots
  simgpu::nccl::PeerMemory peer_memory;
  std::array<std::uint32_t, simgpu::nccl::max_ranks> pieces_sent{}, pieces_received{};

  simgpu::nccl::Member& self() const { return shared.member(rank); }
  /// Whether what runs must end without a result.
  bool stopped() const { return abort_requested || failed(); }
  bool failed() const { return state != ncclSuccess && state != ncclInProgress; }
  bool idle() const { return enqueued.load() == completed.load(); }
  bool wait_until_idle();
};

namespace simgpu::nccl {

/// The communicator behind a handle; null for a null or freed one.
std::shared_ptr<ncclComm> find(ncclComm_t handle);

/// Meets the other ranks; returns what ncclCommInitRank does, and sets the state to it.
ncclResult_t initialise(ncclComm& comm, const ncclUniqueId& id);

/// As above on a thread of its own.
void initialise_later(const std::shared_ptr<ncclComm>& comm, const ncclUniqueId& id);

/// Whether a call may use the communicator now; `call` is its name.
ncclResult_t check_ready(const ncclComm* comm, const std::string& call);

/// What a call has enqueued is the result of a communicator with blocking = 0 only later.
ncclResult_t started(ncclComm& comm);

/// Waits for a counter of another rank; what it waits for, for people, is `call`. False: stopped.
bool wait_for(ncclComm& comm, Counter& counter, std::uint32_t number, int peer,
              const Signature& call);

/// For a thread that waits for something and sees it soon, if the ranks have cores of their own.
class Spin {
 public:
  explicit Spin(int ranks);
  /// Lets a moment pass; false once it has been long enough.
  bool again();

 private:
  int left_;
};

}  // namespace simgpu::nccl
