#include "common/mpi/failure.hpp"

#include <mpi.h>
#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <iostream>
#include <new>
#include <thread>
#include <utility>

#include "common/errors.hpp"
#include "common/mpi/call_board.hpp"
#include "common/mpi/last_call.hpp"
#include "common/mpi/launcher.hpp"

namespace ddp::mpi {
namespace {

constexpr unsigned abort_deadline_seconds = 5;
constexpr std::chrono::seconds silent_wait{10};
constexpr int other_error = 1;

// A terminate handler takes no argument: what it needs belongs to the process.
constinit std::atomic<int> job_rank = -1;
constinit std::atomic<const CallBoard*> job_board = nullptr;
constinit std::atomic<int> code_at_deadline = other_error;
std::thread::id mpi_thread;
std::function<void()> last_action;  // of that thread

int own_rank() {
  const int rank = job_rank.load();
  return rank >= 0 ? rank : launcher_rank().value_or(0);
}

struct Reason {
  std::string text;
  int exit_code;
  bool agreed;
};

// Of the exception that is being handled.
Reason current_reason() {
  try {
    throw;
  } catch (const AgreedError& error) {
    return {error.what(), static_cast<int>(error.code()), true};
  } catch (const Error& error) {
    return {error.what(), static_cast<int>(error.code()), false};
  } catch (const std::bad_alloc&) {
    return {"out of memory", other_error, false};
  } catch (const std::exception& error) {
    return {error.what(), other_error, false};
  } catch (...) {
    return {"an exception of an unknown kind", other_error, false};
  }
}

extern "C" void exit_at_deadline(int) { _exit(code_at_deadline.load()); }

void end_after_deadline(int exit_code) {
  code_at_deadline = exit_code;
  struct sigaction action {};
  action.sa_handler = exit_at_deadline;
  sigaction(SIGALRM, &action, nullptr);
  alarm(abort_deadline_seconds);
}

void do_last_action(int exit_code) {
  if (std::this_thread::get_id() != mpi_thread || !last_action) return;
  end_after_deadline(exit_code);
  last_action();
  alarm(0);
}

[[noreturn]] void report_and_end_job() {
  // Without an exception somebody called std::terminate, for instance a thread left unjoined.
  const Reason reason = std::current_exception() == nullptr
                            ? Reason{"std::terminate was called", other_error, false}
                            : current_reason();
  // Where all know, rank 0 speaks; a claim keeps those quiet that are being ended.
  const bool speaks = reason.agreed ? own_rank() == 0 && (may_report(), true) : may_report();
  if (!speaks) {
    do_last_action(reason.exit_code);
    wait_to_be_ended(reason.exit_code);
  }
  std::cout << std::flush;
  const std::string prefix = reason.agreed ? "" : rank_and_step() + ": ";
  const bool named = reason.text.starts_with(prefix);
  write_to_stderr("error: " + (named ? "" : prefix) + reason.text + "\n");
  do_last_action(reason.exit_code);
  end_job(reason.exit_code);
}

}  // namespace

void end_job_on_uncaught_exception() {
  mpi_thread = std::this_thread::get_id();
  std::set_terminate(report_and_end_job);
}

void at_failure(std::function<void()> action) { last_action = std::move(action); }

void join_job(int rank, const CallBoard* board) {
  job_rank = rank;
  job_board = board;
}

void leave_job() { job_board = nullptr; }

bool may_report() {
  const CallBoard* const board = job_board.load();
  return board == nullptr || board->claim_report();
}

std::string rank_name() { return "rank " + std::to_string(own_rank()); }

std::vector<RankCall> calls_of_this_host() {
  const CallBoard* const board = job_board.load();
  if (board == nullptr) return {{own_rank(), own_record().read()}};
  return board->read();
}

std::string rank_and_step() {
  const std::int64_t step = own_record().read().step;
  return rank_name() + (step > 0 ? ", step " + std::to_string(step) : "");
}

void write_to_stderr(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(STDERR_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

void end_job(int exit_code) {
  int initialized = 0;
  int finalized = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (std::this_thread::get_id() == mpi_thread && initialized != 0 && finalized == 0) {
    end_after_deadline(exit_code);
    MPI_Abort(MPI_COMM_WORLD, exit_code);
  }
  _exit(exit_code);  // the launcher ends a job of which a rank leaves like that
}

void wait_to_be_ended(int exit_code) {
  std::this_thread::sleep_for(silent_wait);
  _exit(exit_code);
}

}  // namespace ddp::mpi
