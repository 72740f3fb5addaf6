#pragma once

#include <csignal>

namespace ddp {

/// While it lives, SIGINT and SIGTERM ask the run to stop after the current step; a second one ends
/// the program at once. Afterwards the handlers are what they were. One at a time: handlers belong
/// to the process.
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

/// Asks the run to stop as SIGINT would; for who takes signals in another way. Nothing happens
/// where there is no StopSignals.
void ask_to_stop();

}  // namespace ddp
