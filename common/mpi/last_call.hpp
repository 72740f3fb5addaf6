#pragma once

#include <atomic>
#include <cstdint>
#include <string>

namespace ddp::mpi {

/// Calls in which a rank may have to wait for others.
enum class CallKind : std::int32_t {
  none,
  send,
  receive,
  wait_send,     ///< MPI_Wait for a message that was started with start_send
  wait_receive,  ///< the same of start_receive
  broadcast,     ///< this and the following are collective: all ranks take part
  barrier,
  all_gather,
  all_reduce,
};

constexpr bool is_collective(CallKind kind) { return kind >= CallKind::broadcast; }

/// The peer of a call in which all ranks take part.
inline constexpr int everyone = -1;

/// What a rank is doing, or did last.
struct LastCall {
  std::int64_t step = 0;  ///< 0 before the first
  CallKind kind = CallKind::none;
  int peer = everyone;  ///< destination, source or root
  std::int64_t bytes = 0;
  std::int64_t sequence = 0;     ///< the number of this call, from 1
  std::int64_t collectives = 0;  ///< how many collective calls have begun
  bool waiting = false;          ///< still inside
  double seconds = 0;            ///< since it began if it waits, else since it ended

  // Of the collectives that the rank enqueues on its device, where it does (stage 05).
  std::int64_t enqueued = 0;  ///< so far
  std::int64_t done = 0;      ///< of these
  double idle_seconds = 0;    ///< since `done` has grown, or since there was nothing to do
};

/// A LastCall that one thread writes and others, also of other processes, read at any time. All
/// zeros is a valid one. A writer never waits: it costs two reads of the clock a call.
class CallRecord {
 public:
  void set_step(std::int64_t step) { step_.store(step, std::memory_order_relaxed); }
  void begin(CallKind kind, int peer, std::int64_t bytes);
  void end();
  /// How many collectives are enqueued on the device, and how many of them are done. Two threads
  /// may call these two.
  void set_enqueued(std::int64_t count);
  void set_done(std::int64_t count);
  LastCall read() const;

 private:
  // Odd while inside a call, and taken before and after a read: where it moved, another call began.
  std::atomic<std::int64_t> sequence_;
  std::atomic<std::int64_t> step_;
  std::atomic<std::int64_t> bytes_;
  std::atomic<std::int64_t> collectives_;
  std::atomic<std::int64_t> since_nanoseconds_;  // CLOCK_MONOTONIC: one clock for the whole host
  std::atomic<CallKind> kind_;
  std::atomic<std::int32_t> peer_;
  std::atomic<std::int64_t> enqueued_;
  std::atomic<std::int64_t> done_;
  std::atomic<std::int64_t> progress_nanoseconds_;
};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);  // so also between processes

/// The record of this process. It belongs to the process, as a terminate handler and a watchdog
/// must find it from anywhere; only the thread that calls MPI writes to it,
/// but for what is said of collectives on the device.
CallRecord& own_record();
/// Moves it to memory that others can see, or back (nullptr).
void place_own_record(CallRecord* place);

/// Notes that this process is inside a call, until the end of the scope. An exception that nobody
/// catches leaves the note as it is, for the one who reports it.
class Call {
 public:
  Call(CallKind kind, int peer, std::int64_t bytes) { own_record().begin(kind, peer, bytes); }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
  ~Call() { own_record().end(); }
};

/// "waiting for 2.0 s to receive 40 bytes from rank 2", "waiting for 2.0 s for all-reduce 7 on the
/// device" or "in no call for 2.0 s".
std::string text_of(const LastCall& call);

}  // namespace ddp::mpi
