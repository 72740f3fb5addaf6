#include "common/mpi/last_call.hpp"

#include <fmt/core.h>
#include <time.h>

namespace ddp::mpi {
namespace {

constexpr auto relaxed = std::memory_order_relaxed;

std::int64_t now_nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

constinit CallRecord private_record{};
constinit std::atomic<CallRecord*> current_record = &private_record;

std::string what(const LastCall& call) {
  switch (call.kind) {
    case CallKind::send:
    case CallKind::wait_send:
      return fmt::format("to send {} bytes to rank {}", call.bytes, call.peer);
    case CallKind::receive:
    case CallKind::wait_receive:
      return fmt::format("to receive {} bytes from rank {}", call.bytes, call.peer);
    case CallKind::broadcast:
      return fmt::format("in a broadcast of {} bytes from rank {}", call.bytes, call.peer);
    case CallKind::barrier:
      return "in a barrier";
    case CallKind::all_gather:
      return "in an all-gather";
    case CallKind::all_reduce:
      return fmt::format("in an all-reduce of {} bytes", call.bytes);
    case CallKind::none:
      break;
  }
  return "in no call";
}

}  // namespace

// Only one thread writes, so that a load and a store suffice. Every store of the fields is a
// release: a reader that sees one sees the odd sequence number before it.
void CallRecord::begin(CallKind kind, int peer, std::int64_t bytes) {
  constexpr auto release = std::memory_order_release;
  const std::int64_t before = sequence_.load(relaxed);
  sequence_.store(before + 1, relaxed);
  since_nanoseconds_.store(now_nanoseconds(), release);
  kind_.store(kind, release);
  peer_.store(peer, release);
  bytes_.store(bytes, release);
  collectives_.store(collectives_.load(relaxed) + (is_collective(kind) ? 1 : 0), release);
}

void CallRecord::end() {
  since_nanoseconds_.store(now_nanoseconds(), std::memory_order_release);
  sequence_.store(sequence_.load(relaxed) + 1, std::memory_order_release);
}

void CallRecord::set_enqueued(std::int64_t count) {
  if (enqueued_.load(relaxed) == done_.load(relaxed)) {
    progress_nanoseconds_.store(now_nanoseconds(), relaxed);
  }
  enqueued_.store(count, std::memory_order_release);
}

void CallRecord::set_done(std::int64_t count) {
  progress_nanoseconds_.store(now_nanoseconds(), relaxed);
  done_.store(count, std::memory_order_release);
}

LastCall CallRecord::read() const {
  constexpr auto acquire = std::memory_order_acquire;
  LastCall call;
  std::int64_t sequence = 0;
  std::int64_t since = 0;
  do {
    sequence = sequence_.load(acquire);
    call.step = step_.load(acquire);
    call.bytes = bytes_.load(acquire);
    call.collectives = collectives_.load(acquire);
    call.kind = kind_.load(acquire);
    call.peer = peer_.load(acquire);
    since = since_nanoseconds_.load(acquire);
  } while (sequence_.load(acquire) != sequence);
  call.waiting = sequence % 2 != 0;
  call.sequence = (sequence + 1) / 2;
  const std::int64_t now = now_nanoseconds();
  call.seconds = since == 0 || now < since ? 0 : static_cast<double>(now - since) * 1e-9;
  call.done = done_.load(acquire);
  call.enqueued = enqueued_.load(acquire);
  const std::int64_t progress = progress_nanoseconds_.load(relaxed);
  call.idle_seconds = progress == 0 ? 0 : static_cast<double>(now - progress) * 1e-9;
  return call;
}

CallRecord& own_record() { return *current_record.load(std::memory_order_acquire); }

void place_own_record(CallRecord* place) {
  current_record.store(place == nullptr ? &private_record : place, std::memory_order_release);
}

std::string text_of(const LastCall& call) {
  if (call.waiting) return fmt::format("waiting for {:.1f} s {}", call.seconds, what(call));
  if (call.enqueued > call.done) {
    return fmt::format("waiting for {:.1f} s for all-reduce {} on the device", call.idle_seconds,
                       call.done + 1);
  }
  if (call.kind == CallKind::none) return "in no call so far";
  return fmt::format("in no call for {:.1f} s", call.seconds);
}

}  // namespace ddp::mpi
