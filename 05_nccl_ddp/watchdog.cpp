#include "05_nccl_ddp/watchdog.hpp"

#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <future>
#include <utility>

#include "common/errors.hpp"
#include "common/mpi/failure.hpp"
#include "common/mpi/last_call.hpp"
#include "common/mpi/waits.hpp"

namespace ddp::nccl {
namespace {

constexpr std::chrono::milliseconds look{20};
constexpr std::chrono::seconds abort_deadline{3};

int current_device() {
  int device = 0;
  cuda::check(cudaGetDevice(&device));
  return device;
}

// The ranks of this host, each with how far it is, and those that have not enqueued `number`.
std::string who_is_missing(std::int64_t number) {
  std::string text;
  std::string missing;
  for (const auto& [rank, call] : mpi::calls_of_this_host()) {
    text += fmt::format("  rank {}: step {}, has enqueued {} all-reduces, of which {} are done\n",
                        rank, call.step, call.enqueued, call.done);
    if (call.enqueued < number) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", rank);
  }
  if (!missing.empty()) return text + fmt::format("  missing: rank {}\n", missing);
  return text +
         "  none of them is missing: a rank of another host is, or their calls do not fit together "
         "(another bucket, size or type)\n";
}

}  // namespace

Watchdog::Watchdog(ncclComm_t communicator, std::chrono::duration<double> timeout)
    : communicator_(communicator),
      timeout_(timeout),
      device_(current_device()),
      last_progress_(Clock::now()),
      thread_([this](const std::stop_token& stop) { watch(stop); }) {}

Watchdog::~Watchdog() {
  thread_.request_stop();
  thread_.join();
}

void Watchdog::enqueued(std::int64_t step, std::size_t bucket, cudaStream_t stream) {
  const std::lock_guard lock(mutex_);
  if (free_events_.empty()) free_events_.emplace_back();
  cuda::Event end = std::move(free_events_.back());
  free_events_.pop_back();
  end.record(stream);
  if (pending_.empty()) last_progress_ = Clock::now();
  pending_.push_back({++count_, step, bucket, std::move(end)});
  mpi::own_record().set_enqueued(count_);
}

void Watchdog::watch(const std::stop_token& stop) {
  cuda::check(cudaSetDevice(device_));  // a new thread begins with device 0
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(look);
    check_progress();
    check_errors();
  }
}

void Watchdog::check_progress() {
  const std::lock_guard lock(mutex_);
  while (!pending_.empty() && cudaEventQuery(pending_.front().end) == cudaSuccess) {
    mpi::own_record().set_done(pending_.front().number);
    free_events_.push_back(std::move(pending_.front().end));
    pending_.pop_front();
    last_progress_ = Clock::now();
  }
  const std::chrono::duration<double> waited = Clock::now() - last_progress_;
  if (pending_.empty() || timeout_.count() <= 0 || waited < timeout_) return;
  const Pending& stuck = pending_.front();
  end_job(fmt::format(
      "step {}: the all-reduce of bucket {} has not ended in {:.1f} s; --timeout is "
      "{:g} s\n{}",
      stuck.step, stuck.bucket, waited.count(), timeout_.count(), who_is_missing(stuck.number)));
}

void Watchdog::check_errors() const {
  ncclResult_t error = ncclSuccess;
  const ncclResult_t result = ncclCommGetAsyncError(communicator_, &error);
  if (result == ncclSuccess) {
    if (error == ncclSuccess || error == ncclInProgress) return;
  } else {
    error = result;
  }
  end_job(
      fmt::format("NCCL: {}; {}\n", ncclGetErrorString(error), ncclGetLastError(communicator_)));
}

void Watchdog::end_job(const std::string& reason) const {
  constexpr int code = static_cast<int>(ExitCode::peer);
  if (!mpi::may_report()) mpi::wait_to_be_ended(code);
  mpi::write_to_stderr(fmt::format("error: {}, {}", mpi::rank_name(), reason));
  std::promise<void> aborted;
  std::thread([&] {
    ncclCommAbort(communicator_);
    aborted.set_value();
  }).detach();
  aborted.get_future().wait_for(abort_deadline);
  _exit(code);
}

}  // namespace ddp::nccl
