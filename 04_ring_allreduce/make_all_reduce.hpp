#pragma once

#include <memory>

#include "03_naive_allreduce/all_reduce.hpp"
#include "common/cli/options.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// The all-reduce that --allreduce names; `communicator` outlives it. `device_pointers`: whether
/// MPI is given device memory (see pass_device_pointers). Throws OptionError for `tree` unless the
/// number of ranks is a power of two. Instantiated for float and double.
template <class T>
std::unique_ptr<AllReduce<T>> make_all_reduce(AllReduceKind kind,
                                              const mpi::Communicator& communicator,
                                              bool device_pointers);

}  // namespace ddp
