#pragma once

#include <csignal>

namespace ddp {

/// While it lives, SIGINT and SIGTERM ask the run to stop after the current step; a second one ends
/// the program at once. SIGTERM is left alone where a watchdog has taken it. Afterwards the
/// handlers are what they were. One at a time: handlers belong to the process.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;
  ~StopSignals();

  bool received() const;

 private:
  struct sigaction previous_interrupt_;
  struct sigaction previous_terminate_;
};

/// For who handles SIGTERM in another way: while true, a StopSignals that comes to life leaves it
/// alone.
void take_sigterm(bool taken);

/// Asks the run to stop as SIGINT would; for who takes signals in another way. Nothing happens
/// where there is no StopSignals.
void ask_to_stop();

}  // namespace ddp
