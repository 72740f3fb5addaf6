#include "common/mpi/watchdog.hpp"

#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "common/errors.hpp"
#include "common/mpi/failure.hpp"
#include "common/run/signals.hpp"

namespace ddp::mpi {
namespace {

using Seconds = std::chrono::duration<double>;

constexpr Seconds longest_look{0.05};
constexpr Seconds patience_after_signal{0.25};
constexpr int terminated_by_signal = 128 + SIGTERM;

// Lock-free, so a handler may touch it.
constinit std::atomic<int> termination_signals = 0;
extern "C" void count_termination(int) { ++termination_signals; }

}  // namespace

Watchdog::Watchdog(const CallBoard& board, Seconds timeout) : board_(board), timeout_(timeout) {
  termination_signals = 0;
  struct sigaction action {};
  action.sa_handler = count_termination;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(SIGTERM, &action, &previous_termination_);
  take_sigterm(true);
  thread_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Watchdog::~Watchdog() {
  thread_.request_stop();
  thread_.join();
  take_sigterm(false);
  sigaction(SIGTERM, &previous_termination_, nullptr);
}

void Watchdog::watch(const std::stop_token& stop) {
  const Seconds look =
      timeout_ > Seconds::zero() ? std::min(longest_look, timeout_ / 4) : longest_look;
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(look);
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
  const int signals = termination_signals.load();
  if (signals == 0) return;
  if (std::exchange(signals_seen_, signals) == 0) {
    first_signal_ = std::chrono::steady_clock::now();
    ask_to_stop();
  }
  if (signals > 1) exit_terminated();
  if (std::chrono::steady_clock::now() - first_signal_ < patience_after_signal) return;
  const LastCall call = own_record().read();
  const bool device_waits =
      call.enqueued > call.done && Seconds(call.idle_seconds) >= patience_after_signal;
  if (call.waiting && Seconds(call.seconds) >= patience_after_signal) exit_terminated();
  if (device_waits) exit_terminated();
}

void Watchdog::exit_terminated() const {
  if (!board_.report_claimed()) {
    write_to_stderr(
        fmt::format("{}: ended by SIGTERM, {}\n", rank_and_step(), text_of(own_record().read())));
    // The launcher, busy with ending the job, drops what it has not read when the last rank is
    // gone.
    std::this_thread::sleep_for(std::chrono::milliseconds(200));
  }
  _exit(terminated_by_signal);
}

}  // namespace ddp::mpi
