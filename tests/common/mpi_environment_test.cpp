#include <cuda_runtime.h>
#include <mpi.h>

#include <array>
#include <span>
#include <string>
#include <vector>

#include "common/cuda/check.hpp"
#include "common/mpi/launcher.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

TEST_CASE("Each rank works on the device of its local rank, and MPI counts as the launcher does") {
  const mpi::Environment& here = environment();
  CHECK(here.rank() == world().rank());
  CHECK(here.size() == world().size());
  CHECK(mpi::launcher_rank() == here.rank());
  CHECK(mpi::launcher_local_rank() == here.local_rank());
  int current = -1;
  cuda::check(cudaGetDevice(&current));
  CHECK(current == here.device());
  int visible = 0;
  cuda::check(cudaGetDeviceCount(&visible));
  CHECK(here.device() == here.local_rank() % visible);  // this program lets ranks share
}

TEST_CASE("MPI allows other threads, and returns errors") {
  int provided = MPI_THREAD_SINGLE;
  MPI_Query_thread(&provided);
  CHECK(provided >= MPI_THREAD_FUNNELED);
  const float value = 0;
  CHECK(MPI_Send(&value, 1, MPI_FLOAT, world().size(), 0, world().handle()) != MPI_SUCCESS);
  CHECK(MPI_Send(&value, 1, MPI_FLOAT, world().size(), 0, MPI_COMM_WORLD) != MPI_SUCCESS);
}

TEST_CASE("EN-05: Debian's MPI may not be given device pointers, and says so") {
  std::array<char, MPI_MAX_LIBRARY_VERSION_STRING> text{};
  int length = 0;
  MPI_Get_library_version(text.data(), &length);
  const std::string version(text.data());
  if (version.find("Debian") != version.npos) CHECK_FALSE(mpi::takes_device_pointers());
}

TEST_CASE("The board shows every rank of the host, and the step and call of each") {
  world().set_step(10 + world().rank());
  for (int root = 0; root < world().size(); ++root) {
    float value = 0;
    world().broadcast(std::span(&value, 1), root);
  }
  world().barrier();  // all have set their step
  const std::vector<mpi::RankCall> calls = environment().board().read();
  REQUIRE(calls.size() == static_cast<std::size_t>(world().size()));
  for (int rank = 0; rank < world().size(); ++rank) {
    const mpi::RankCall& one = calls[static_cast<std::size_t>(rank)];
    CHECK(one.rank == rank);
    CHECK(one.call.step == 10 + rank);
    CHECK(one.call.kind == mpi::CallKind::barrier);
  }
  world().barrier();  // none goes on to other calls before
}

}  // namespace
}  // namespace ddp
