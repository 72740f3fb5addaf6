#include "bench/library_algorithm.hpp"

#include <mpi.h>

#include <string>

#include "common/errors.hpp"

namespace ddp::bench {
namespace {

void write_variable(const char* name, int value) {
  int index = 0, count = 0;
  MPI_T_cvar_handle handle = MPI_T_CVAR_HANDLE_NULL;
  const bool written = MPI_T_cvar_get_index(name, &index) == MPI_SUCCESS &&
                       MPI_T_cvar_handle_alloc(index, nullptr, &handle, &count) == MPI_SUCCESS &&
                       MPI_T_cvar_write(handle, &value) == MPI_SUCCESS;
  if (handle != MPI_T_CVAR_HANDLE_NULL) MPI_T_cvar_handle_free(&handle);
  if (!written) {
    throw OptionError(std::string("--algorithm mpi:N needs Open MPI's variable ") + name +
                      ", which this MPI library does not let us set");
  }
}

}  // namespace

void choose_library_algorithm(int number, int segment_bytes) {
  int provided = 0;
  MPI_T_init_thread(MPI_THREAD_SINGLE, &provided);
  write_variable("coll_tuned_allreduce_algorithm", number);
  write_variable("coll_tuned_allreduce_algorithm_segmentsize", segment_bytes);
  MPI_T_finalize();
}

}  // namespace ddp::bench
