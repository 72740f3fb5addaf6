#include "03_naive_allreduce/mpi_buffers.hpp"

#include "common/errors.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

bool pass_device_pointers(MpiBuffers choice, bool simulated) {
  switch (choice) {
    case MpiBuffers::automatic:
      return mpi::takes_device_pointers();
    case MpiBuffers::host:
      return false;
    case MpiBuffers::device:
      break;
  }
  if (!simulated && !mpi::takes_device_pointers()) {
    throw OptionError(
        "--mpi-buffers is device, but this MPI library is not CUDA-aware; use host or auto");
  }
  return true;
}

}  // namespace ddp
