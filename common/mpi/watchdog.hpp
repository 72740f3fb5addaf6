#pragma once

#include <chrono>
#include <thread>

#include "common/mpi/call_board.hpp"

namespace ddp::mpi {

/// Keeps SIGTERM from every thread that the calling one will start, and from itself: it is for the
/// watchdog. To be called before MPI, CUDA or anybody else starts threads.
void reserve_termination_signal();

/// A thread that watches over this rank's last call, and ends the job where it takes too long. It
/// uses neither MPI nor the device, which may be stuck.
///
/// Note [Signals in a job of ranks]
///
/// SIGINT asks a run to stop after its step, as in a program of one process (StopSignals). SIGTERM
/// is what a launcher sends to the survivors when a rank has failed, a second before SIGKILL; but
/// also what somebody sends who wants a job to stop. So it asks the run to stop, and a rank that
/// then sits in one call for half a second, because its peer is gone, says where it waits and
/// exits. A second SIGTERM ends the rank at once. Where a rank has reported why the job ends, the
/// others are silent. The watchdog's thread takes the signal (sigtimedwait), so that all this is
/// ordinary code.
class Watchdog {
 public:
  /// Ends the job with exit code 5 once this rank has been inside one call for `timeout`; 0: never.
  Watchdog(const CallBoard& board, std::chrono::duration<double> timeout);
  Watchdog(const Watchdog&) = delete;
  Watchdog& operator=(const Watchdog&) = delete;
  ~Watchdog();

 private:
  void watch(const std::stop_token& stop);
  void check_time() const;
  void check_termination();
  [[noreturn]] void exit_terminated() const;

  const CallBoard& board_;
  const std::chrono::duration<double> timeout_;
  std::chrono::steady_clock::time_point first_signal_{};  // the epoch: none has come
  std::jthread thread_;                                   // last: it uses the others
};

}  // namespace ddp::mpi
