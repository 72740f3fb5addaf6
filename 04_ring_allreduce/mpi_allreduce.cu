#include "04_ring_allreduce/mpi_allreduce.hpp"

#include <algorithm>
#include <cstddef>

#include "03_naive_allreduce/check_spans.hpp"
#include "common/mpi/check.hpp"

namespace ddp {
namespace {

/// MPI counts in 32 bits, so that a larger buffer takes several calls. Equal pointers are an error
/// in MPI: it wants to be told that it works in place.
template <class T>
void all_reduce(std::span<const T> input, std::span<T> output, MPI_Comm communicator) {
  constexpr std::size_t most = std::size_t{1} << 30;
  for (std::size_t begin = 0; begin < output.size(); begin += most) {
    const std::size_t count = std::min(most, output.size() - begin);
    const bool in_place = input.data() == output.data();
    mpi::check(MPI_Allreduce(in_place ? MPI_IN_PLACE : input.data() + begin, output.data() + begin,
                             static_cast<int>(count), mpi::datatype<T>(), MPI_SUM, communicator));
  }
}

}  // namespace

template <class T>
void MpiAllReduce<T>::sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) {
  check_spans(input, output);
  if (output.empty()) return;
  if (device_pointers_) {
    cuda::check(cudaStreamSynchronize(stream));
    all_reduce(input, output, communicator_.handle());
    return;
  }
  const std::span<T> staged(staged_.of_size(output.size()).data(), output.size());
  cuda::copy_async(staged.data(), input.data(), input.size(), stream);
  cuda::check(cudaStreamSynchronize(stream));
  all_reduce<T>(staged, staged, communicator_.handle());
  cuda::copy_async(output.data(), static_cast<const T*>(staged.data()), staged.size(), stream);
  cuda::check(cudaStreamSynchronize(stream));  // the next call may use another stream
}

template class MpiAllReduce<float>;
template class MpiAllReduce<double>;

}  // namespace ddp
