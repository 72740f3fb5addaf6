#pragma once

#include <string>
#include <vector>

#include "common/mpi/environment.hpp"

namespace ddp {

/// How the ranks of a test program stay together. Its messages have a communicator of their own,
/// so that whatever a test leaves undone does not mix with them.
class TestAgreement {
 public:
  explicit TestAgreement(const mpi::Environment& environment);
  TestAgreement(const TestAgreement&) = delete;
  TestAgreement& operator=(const TestAgreement&) = delete;
  ~TestAgreement();

  /// Every rank's value, once all have called it. A rank that `is_failing` does not wait for ever:
  /// a failure may have taken it out of a test in which the others now wait for it. It calls
  /// `give_up`, which must not return, after a few seconds.
  std::vector<int> gather(int value, bool is_failing, void (*give_up)()) const;

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
  int size_;
};

/// Receives and drops every message that waits in `comm` for this rank; a line for each, without
/// line breaks: "from rank 0, tag 0, 40 bytes".
std::vector<std::string> drain_unread(MPI_Comm comm);

/// The lines of `text`, each after "rank R: ".
std::string with_rank(int rank, const std::string& text);

}  // namespace ddp
