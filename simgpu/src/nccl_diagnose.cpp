#include "nccl_diagnose.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>

#include "nccl_bootstrap.hpp"
#include "settings.hpp"

namespace simgpu::nccl {
namespace {

constexpr std::chrono::seconds stall_limit{3};

std::string rank_text(int rank) { return "rank " + std::to_string(rank); }

std::string call_text(std::uint32_t number, const Signature& call) {
  return "call " + std::to_string(number) + ", " + text(call);
}

void say(const std::string& line) {
  std::fprintf(stderr, "simgpu: NCCL: %s\n", line.c_str());
  std::fflush(stderr);
}

bool has_ended(std::int32_t process) {
  if (process == getpid()) return false;
  const File handle(static_cast<int>(syscall(SYS_pidfd_open, process, 0)));
  if (!handle) return errno == ESRCH || (kill(process, 0) != 0 && errno == ESRCH);
  pollfd ended{handle.get(), POLLIN, 0};
  return poll(&ended, 1, 0) > 0;
}

/// The collective call that a rank has made last, for people.
std::string last_call(const ncclComm& comm, int rank) {
  const Member& member = comm.shared.member(rank);
  const std::uint32_t calls = member.calls.value();
  if (calls == 0) return "has made no collective call yet";
  return "was last seen in " +
         call_text(calls, member.signatures[(calls - 1) % Member::remembered]);
}

/// "call 3, " for a collective call; a message has no number that both sides know.
std::string own_call(const ncclComm& comm, const Signature& call) {
  return is_point_to_point(call.kind) ? text(call) : call_text(comm.calls, call);
}

}  // namespace

void fail(ncclComm& comm, ncclResult_t result, const std::string& text) {
  ncclResult_t good = ncclSuccess;  // the first failure is the one to be told
  if (comm.state.compare_exchange_strong(good, result)) (void)failure(result, text);
}

bool agree(ncclComm& comm, const Signature& call) {
  Member& self = comm.self();
  self.signatures[(comm.calls - 1) % Member::remembered] = call;
  self.calls.raise_to(comm.calls);
  for (int other = 0; other < comm.ranks; ++other) {
    Member& member = comm.shared.member(other);
    if (!wait_for(comm, member.calls, comm.calls, other, call)) return false;
    const Signature& theirs = member.signatures[(comm.calls - 1) % Member::remembered];
    if (theirs == call) continue;
    const std::string line = "the ranks' calls do not match: in call " +
                             std::to_string(comm.calls) + " of the communicator " +
                             rank_text(comm.rank) + " called " + text(call) + ", " +
                             rank_text(other) + " called " + text(theirs);
    if (comm.shared.header().explained.exchange(1) == 0) say(line);
    fail(comm, ncclInvalidUsage, line);
    return false;
  }
  return true;
}

bool agree_on_message(ncclComm& comm, const Signature& sent, const Signature& expected) {
  if (sent.count == expected.count && sent.type == expected.type) return true;
  const std::string line = "a message does not match: " + rank_text(expected.other_rank) +
                           " called " + text(sent) + ", " + rank_text(comm.rank) + " called " +
                           text(expected);
  say(line);
  fail(comm, ncclInvalidUsage, line);
  return false;
}

bool Patience::last(std::span<const int> peers, const std::function<bool()>& came) {
  if (settings().nccl != Nccl::diagnose) return true;
  for (const int peer : peers) {
    const Member& member = comm_.shared.member(peer);
    const Departure departure = static_cast<Departure>(member.departure.load());
    const bool ended = departure == here && has_ended(member.process);
    if (departure == here && !ended) continue;
    if (came()) return true;
    const std::string how = ended ? " has ended (process " + std::to_string(member.process) + ")"
                                  : (departure == destroyed ? " has destroyed its communicator"
                                                            : " has aborted its communicator");
    const std::string line = rank_text(peer) + how + "; " + rank_text(comm_.rank) +
                             " waits for it in " + own_call(comm_, call_) + ", " + rank_text(peer) +
                             " " + last_call(comm_, peer);
    say(line);
    fail(comm_, ncclRemoteError, line);
    return false;
  }
  if (!said_ && !peers.empty() && std::chrono::steady_clock::now() - begin_ > stall_limit) {
    said_ = true;
    std::string line = rank_text(comm_.rank) + " has waited for " +
                       std::to_string(stall_limit.count()) + " s in " + own_call(comm_, call_) +
                       " for";
    for (const int peer : peers)
      line += " " + rank_text(peer) + ", which " + last_call(comm_, peer);
    say(line);
  }
  return true;
}

}  // namespace simgpu::nccl
