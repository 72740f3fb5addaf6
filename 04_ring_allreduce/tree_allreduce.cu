#include "04_ring_allreduce/tree_allreduce.hpp"

#include <bit>
#include <string>

#include "02_grad_accum/add.cuh"
#include "03_naive_allreduce/check_spans.hpp"
#include "common/errors.hpp"

namespace ddp {

template <class T>
TreeAllReduce<T>::TreeAllReduce(const mpi::Communicator& communicator, bool device_pointers)
    : rank_(communicator.rank()),
      ranks_(communicator.size()),
      exchange_(communicator, device_pointers) {
  if (!std::has_single_bit(static_cast<unsigned>(ranks_))) {
    throw OptionError("--allreduce tree needs 1, 2, 4, 8, ... ranks, not " +
                      std::to_string(ranks_) +
                      ": only then has every rank a partner in every round, and the order of "
                      "addition is the same for all; use ring");
  }
}

template <class T>
void TreeAllReduce<T>::sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) {
  check_spans(input, output);
  if (output.empty()) return;
  if (ranks_ == 1 && input.data() != output.data()) {
    cuda::copy_async(output.data(), input.data(), output.size(), stream);
  }
  std::span<const T> mine = input;
  for (int distance = 1; distance < ranks_; distance *= 2) {
    const int partner = rank_ ^ distance;
    const std::span<T> theirs(received_.of_size(output.size()).data(), output.size());
    exchange_(mine, partner, theirs, partner, stream);
    const bool first = rank_ < partner;
    add<T>(first ? mine.data() : theirs.data(), first ? theirs.data() : mine.data(), output,
           stream);
    mine = output;
  }
  cuda::check(cudaStreamSynchronize(stream));  // the next call may use another stream
}

template class TreeAllReduce<float>;
template class TreeAllReduce<double>;

}  // namespace ddp
