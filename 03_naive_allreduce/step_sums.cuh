#pragma once

#include <cstddef>
#include <span>

#include "01_single_gpu/parameter_store.hpp"
#include "03_naive_allreduce/all_reduce.hpp"
#include "common/cli/options.hpp"
#include "common/cuda/launch.hpp"
#include "common/mpi/communicator.hpp"
#include "common/run/step_scalars.hpp"

namespace ddp {

/// What is added up over the ranks besides the gradient, in the extras behind it, so that it takes
/// no message of its own: the sum of the losses, the hits, the number of ranks that were asked to
/// stop, and a place a rank for its flags. (Flags cannot be added: two ranks with flag 1 would make
/// flag 2.)
inline constexpr std::size_t loss_extra = 0, correct_extra = 1, stop_extra = 2, flag_extras = 3;

/// Number of extras for `world_size` ranks.
constexpr std::size_t step_extras(int world_size) {
  return flag_extras + static_cast<std::size_t>(world_size);
}

template <class T>
__global__ void pack_kernel(const StepScalars<T>* scalars, T* extras, unsigned rank,
                            unsigned world_size, bool stop) {
  extras[loss_extra] = scalars->loss_sum;
  extras[correct_extra] = scalars->correct;
  extras[stop_extra] = stop ? T(1) : T(0);
  for (unsigned r = 0; r < world_size; ++r) {
    extras[flag_extras + r] = r == rank ? static_cast<T>(scalars->flags) : T(0);
  }
}

template <class T>
__global__ void unpack_kernel(const T* extras, StepScalars<T>* scalars, unsigned world_size) {
  scalars->loss_sum = extras[loss_extra];
  scalars->correct = extras[correct_extra];
  scalars->stop = extras[stop_extra] != T(0) ? 1U : 0U;
  for (unsigned r = 0; r < world_size; ++r) {
    const auto flags = static_cast<unsigned>(extras[flag_extras + r]);
    if (flags != 0 && scalars->raised_by == 0) scalars->raised_by = r + 1;
    scalars->flags |= flags;
  }
}

/// This rank's scalars into the extras, before they are added up.
template <class T>
void pack_scalars(const ParameterStore<T>& parameters, const StepScalars<T>* scalars,
                  const mpi::Communicator& communicator, bool stop, cudaStream_t stream) {
  cuda::launch<pack_kernel<T>>({stream, 1, 1}, scalars, parameters.extras(),
                               static_cast<unsigned>(communicator.rank()),
                               static_cast<unsigned>(communicator.size()), stop);
}

/// The sums from the extras, once they have been added up.
template <class T>
void unpack_scalars(const ParameterStore<T>& parameters, StepScalars<T>* scalars,
                    const mpi::Communicator& communicator, cudaStream_t stream) {
  cuda::launch<unpack_kernel<T>>({stream, 1, 1}, parameters.extras(), scalars,
                                 static_cast<unsigned>(communicator.size()));
}

/// Adds gradients and scalars over all ranks. Each rank's part is divided by the global batch
/// already: after this all ranks hold the gradient of the whole batch, its loss, and everybody's
/// flags.
template <class T>
void reduce_step(AllReduce<T>& all_reduce, const ParameterStore<T>& parameters,
                 StepScalars<T>* scalars, const mpi::Communicator& communicator,
                 const Options& options, bool stop, cudaStream_t stream) {
  pack_scalars(parameters, scalars, communicator, stop, stream);
  if (options.by_parameter) {
    for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
      all_reduce.sum(parameters.gradient(p), stream);
    }
    all_reduce.sum({parameters.extras(), step_extras(communicator.size())}, stream);
  } else {
    all_reduce.sum(parameters.gradients_and_extras(), stream);
  }
  unpack_scalars(parameters, scalars, communicator, stream);
}

}  // namespace ddp
