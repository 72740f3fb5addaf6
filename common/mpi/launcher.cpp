#include "common/mpi/launcher.hpp"

#include <charconv>
#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace ddp::mpi {
namespace {

std::optional<int> first_of(std::initializer_list<const char*> names) {
  for (const char* const name : names) {
    const char* const value = std::getenv(name);
    if (value == nullptr) continue;
    const std::string_view text = value;
    int number = 0;
    const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && stop == text.data() + text.size() && number >= 0) return number;
  }
  return std::nullopt;
}

}  // namespace

std::optional<int> launcher_rank() {
  return first_of({"OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "PALS_RANKID",
                   "PMIX_RANK", "SLURM_PROCID"});
}

std::optional<int> launcher_local_rank() {
  return first_of({"OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID",
                   "PALS_LOCAL_RANKID", "SLURM_LOCALID"});
}

void spare_a_rank_alone() {
  if (launcher_rank()) return;
  constexpr int keep = 0;
  setenv("OMPI_MCA_ess_singleton_isolated", "1", keep);
  setenv("OMPI_MCA_orte_create_session_dirs", "0", keep);
  setenv("OMPI_MCA_pml", "ob1", keep);
  setenv("OMPI_MCA_btl", "self", keep);
}

}  // namespace ddp::mpi
