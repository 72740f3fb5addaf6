#pragma once

#include <mpi.h>

#include <vector>

#include "common/mpi/last_call.hpp"
#include "common/mpi/waits.hpp"

namespace ddp::mpi {

/// The last calls of all ranks of this host, in memory that they share, so that any of them can say
/// who waits for whom when MPI itself answers no more. The memory is a file without a name: nothing
/// is left of it, whatever ends the job. Where it cannot be shared, a rank sees only itself.
class CallBoard {
 public:
  /// Collective over `world`. Moves this process's record to the board; one board at a time.
  explicit CallBoard(MPI_Comm world);
  CallBoard(const CallBoard&) = delete;
  CallBoard& operator=(const CallBoard&) = delete;
  ~CallBoard();

  /// In rising order of the ranks.
  std::vector<RankCall> read() const;

  /// True for one caller of this host, for ever after false: who may report a failure. The others
  /// fail because of it, and what they have to say would hide the reason.
  bool claim_report() const;
  bool report_claimed() const;

 private:
  struct Slot;
  struct Shared;
  Slot* slot(int index) const;
  Shared* shared_ = nullptr;
  std::size_t bytes_ = 0;
  int slots_ = 1;
};

}  // namespace ddp::mpi
