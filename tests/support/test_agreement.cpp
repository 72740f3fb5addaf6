#include "tests/support/test_agreement.hpp"

#include <chrono>
#include <sstream>

#include "common/mpi/check.hpp"
#include "common/mpi/link.hpp"

namespace ddp {

TestAgreement::TestAgreement(const mpi::Environment& environment) : size_(environment.size()) {
  mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
}

TestAgreement::~TestAgreement() { MPI_Comm_free(&comm_); }

std::vector<int> TestAgreement::gather(int value, bool is_failing, void (*give_up)()) const {
  constexpr std::chrono::seconds patience{3};
  const auto deadline = std::chrono::steady_clock::now() + patience;
  std::vector<int> values(static_cast<std::size_t>(size_));
  MPI_Request request = MPI_REQUEST_NULL;
  mpi::check(MPI_Iallgather(&value, 1, MPI_INT, values.data(), 1, MPI_INT, comm_, &request));
  int done = 0;
  mpi::check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  while (done == 0) {
    if (is_failing && std::chrono::steady_clock::now() > deadline) give_up();
    mpi::doze();
    mpi::check(MPI_Test(&request, &done, MPI_STATUS_IGNORE));
  }
  return values;
}

std::vector<std::string> drain_unread(MPI_Comm comm) {
  constexpr int looks = 3;  // one look may only move messages on inside the library
  std::vector<std::string> lines;
  for (int look = 0; look < looks; ++look) {
    int found = 0;
    MPI_Status status;
    mpi::check(MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &found, &status));
    if (found == 0) continue;
    int bytes = 0;
    mpi::check(MPI_Get_count(&status, MPI_BYTE, &bytes));
    std::vector<char> values(static_cast<std::size_t>(bytes));
    mpi::check(MPI_Recv(values.data(), bytes, MPI_BYTE, status.MPI_SOURCE, status.MPI_TAG, comm,
                        MPI_STATUS_IGNORE));
    std::ostringstream line;
    line << "from rank " << status.MPI_SOURCE << ", tag " << status.MPI_TAG << ", " << bytes
         << " bytes";
    lines.push_back(line.str());
    look = -1;  // until there are no more
  }
  return lines;
}

std::string with_rank(int rank, const std::string& text) {
  std::istringstream lines(text);
  std::string result;
  for (std::string line; std::getline(lines, line);) {
    result += "rank " + std::to_string(rank) + ": " + line + "\n";
  }
  return result;
}

}  // namespace ddp
