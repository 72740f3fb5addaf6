#include "common/mpi/check.hpp"

#include <mpi.h>

#include <array>
#include <string>

#include "common/errors.hpp"

namespace ddp::mpi {

void check(int status, std::source_location where) {
  if (status == MPI_SUCCESS) return;
  std::array<char, MPI_MAX_ERROR_STRING> text{};
  int length = 0;
  MPI_Error_string(status, text.data(), &length);
  throw PeerError(std::string(where.file_name()) + ":" + std::to_string(where.line()) + ": " +
                  std::string(text.data(), static_cast<std::size_t>(length)));
}

}  // namespace ddp::mpi
