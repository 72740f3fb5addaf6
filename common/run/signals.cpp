#include "common/run/signals.hpp"

#include <atomic>

namespace ddp {
namespace {

// The one thing that a handler may touch. Lock-free, so it is safe inside one, and unlike
// std::sig_atomic_t also where another thread takes the signal.
std::atomic<bool> stop_requested = false;
static_assert(std::atomic<bool>::is_always_lock_free);
std::atomic<bool> sigterm_is_taken = false;

extern "C" void request_stop(int) { stop_requested.store(true, std::memory_order_relaxed); }

}  // namespace

StopSignals::StopSignals() {
  stop_requested = false;
  struct sigaction action {};
  action.sa_handler = request_stop;
  action.sa_flags = SA_RESTART | SA_RESETHAND;  // the second one acts as if there were no handler
  sigemptyset(&action.sa_mask);
  sigaction(SIGINT, &action, &previous_interrupt_);
  sigaction(SIGTERM, nullptr, &previous_terminate_);
  if (!sigterm_is_taken) sigaction(SIGTERM, &action, nullptr);
}

StopSignals::~StopSignals() {
  sigaction(SIGINT, &previous_interrupt_, nullptr);
  sigaction(SIGTERM, &previous_terminate_, nullptr);
}

void take_sigterm(bool taken) { sigterm_is_taken = taken; }

void ask_to_stop() { request_stop(0); }

bool StopSignals::received() const { return stop_requested.load(std::memory_order_relaxed); }

}  // namespace ddp
