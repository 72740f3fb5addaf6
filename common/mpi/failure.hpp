#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/mpi/waits.hpp"

namespace ddp::mpi {

class CallBoard;

/// Note [How a rank fails]
///
/// Nothing catches what training throws. Unwinding would run destructors that free device memory,
/// which waits for the work of the device, which may be a collective that waits for the peers,
/// which wait for this rank. So a terminate handler, which runs before any unwinding, writes the
/// reason and ends the whole job: MPI_Abort from the thread that calls MPI, _exit from any other.
/// Nor may a rank end alone and politely: MPI_Finalize would wait for ranks that wait for it.
///
/// One rank of a host speaks, the first to fail (CallBoard::claim_report); the others fail because
/// of it. An AgreedError, which all throw alike, is told by rank 0. Whoever keeps silent waits to
/// be ended by the launcher, so that its own end does not cut off the message.

/// Installs the terminate handler. The calling thread is the one that calls MPI.
void end_job_on_uncaught_exception();

/// What to do before this rank ends the job or waits to be ended, if the thread that calls MPI has
/// thrown; empty: nothing. It must not throw; where it hangs, the rank ends after five seconds.
void at_failure(std::function<void()> action);

/// What messages need to know; the board may be null. leave_job() before the board goes.
void join_job(int rank, const CallBoard* board);
void leave_job();

/// Whether this rank is the one to report a failure.
bool may_report();

/// "rank 2".
std::string rank_name();

/// The last calls of this host's ranks, in rising order; of this one alone outside of a job.
std::vector<RankCall> calls_of_this_host();

/// The beginning of messages: "rank 2, step 3", or "rank 2" before the first step.
std::string rank_and_step();

/// Writes `text` to stderr in one piece, so that lines of several ranks do not mix.
void write_to_stderr(const std::string& text);

/// Ends all ranks with this exit code, within seconds even where MPI hangs.
[[noreturn]] void end_job(int exit_code);

/// For a rank that has nothing to say: waits for the launcher to end it, at most for ten seconds.
[[noreturn]] void wait_to_be_ended(int exit_code);

}  // namespace ddp::mpi
