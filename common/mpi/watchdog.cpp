#include "common/mpi/watchdog.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <string>

#include "common/errors.hpp"
#include "common/mpi/failure.hpp"
#include "common/run/signals.hpp"

namespace ddp::mpi {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds longest_look{0.05};
constexpr Seconds patience_after_signal{0.5};
constexpr int terminated_by_signal = 128 + SIGTERM;

sigset_t termination_signal() {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  return signals;
}

}  // namespace

void reserve_termination_signal() {
  const sigset_t signals = termination_signal();
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
}

Watchdog::Watchdog(const CallBoard& board, Seconds timeout)
    : board_(board),
      timeout_(timeout),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

Watchdog::~Watchdog() = default;

void Watchdog::watch(const std::stop_token& stop) {
  const sigset_t signals = termination_signal();
  const Seconds look =
      timeout_ > Seconds::zero() ? std::min(longest_look, timeout_ / 4) : longest_look;
  const timespec time{0, static_cast<long>(look.count() * 1e9)};
  while (!stop.stop_requested()) {
    if (sigtimedwait(&signals, nullptr, &time) == SIGTERM) {
      if (first_signal_ != std::chrono::steady_clock::time_point{}) exit_terminated();
      first_signal_ = std::chrono::steady_clock::now();
      ask_to_stop();
    }
    check_termination();
    check_time();
  }
}

void Watchdog::check_time() const {
  const LastCall call = own_record().read();
  if (timeout_ <= Seconds::zero() || !call.waiting || call.seconds < timeout_.count()) return;
  constexpr int code = static_cast<int>(ExitCode::peer);
  if (!may_report()) wait_to_be_ended(code);
  write_to_stderr(fmt::format("error: {}: {}; --timeout is {:g} s\n{}", rank_and_step(),
                              text_of(call), timeout_.count(), diagnosis(board_.read())));
  _exit(code);  // not MPI_Abort: it is not for this thread, and MPI may be what is stuck
}

void Watchdog::check_termination() {
  if (first_signal_ == std::chrono::steady_clock::time_point{}) return;
  if (std::chrono::steady_clock::now() - first_signal_ < patience_after_signal) return;
  const LastCall call = own_record().read();
  if (call.waiting && Seconds(call.seconds) >= patience_after_signal) exit_terminated();
}

void Watchdog::exit_terminated() const {
  if (!board_.report_claimed()) {
    write_to_stderr(
        fmt::format("{}: ended by SIGTERM, {}\n", rank_and_step(), text_of(own_record().read())));
  }
  _exit(terminated_by_signal);
}

}  // namespace ddp::mpi
