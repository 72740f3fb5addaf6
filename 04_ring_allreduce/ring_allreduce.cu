#include "04_ring_allreduce/ring_allreduce.hpp"

#include "02_grad_accum/add.cuh"
#include "03_naive_allreduce/check_spans.hpp"

namespace ddp {

template <class T>
RingAllReduce<T>::RingAllReduce(const mpi::Communicator& communicator, bool device_pointers)
    : rank_(communicator.rank()),
      ranks_(communicator.size()),
      left_((rank_ + ranks_ - 1) % ranks_),
      right_((rank_ + 1) % ranks_),
      exchange_(communicator, device_pointers) {}

template <class T>
Chunk RingAllReduce<T>::chunk(std::size_t count, int index) const {
  return chunk_of(count, ranks_, (index + ranks_) % ranks_);
}

template <class T>
void RingAllReduce<T>::reduce_scatter_step(int step, std::span<const T> input, std::span<T> output,
                                           cudaStream_t stream) {
  // [exercise 4.2] Pass on the chunk of the table's row; add your own term to the one that comes.
  const Chunk sent = chunk(input.size(), rank_ - step);
  const Chunk grows = chunk(input.size(), rank_ - step - 1);
  const std::span<const T> sums = step == 0 ? input : output;  // the first one holds my term alone
  const std::span<T> received(received_.of_size(grows.count).data(), grows.count);
  exchange_(part(sums, sent), right_, received, left_, stream);
  add<T>(received.data(), part(input, grows).data(), part(output, grows), stream);
  // [/exercise]
}

template <class T>
void RingAllReduce<T>::all_gather_step(int step, std::span<T> values, cudaStream_t stream) {
  // [exercise 4.3] Pass on the finished chunk of the table's row; keep the one that comes.
  const Chunk sent = chunk(values.size(), rank_ + 1 - step);
  const Chunk kept = chunk(values.size(), rank_ - step);
  exchange_(part(values, sent), right_, part(values, kept), left_, stream);
  // [/exercise]
}

template <class T>
void RingAllReduce<T>::sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) {
  check_spans(input, output);
  if (output.empty()) return;
  if (ranks_ == 1 && input.data() != output.data()) {
    cuda::copy_async(output.data(), input.data(), output.size(), stream);
  }
  for (int step = 0; step < ranks_ - 1; ++step) reduce_scatter_step(step, input, output, stream);
  for (int step = 0; step < ranks_ - 1; ++step) all_gather_step(step, output, stream);
  cuda::check(cudaStreamSynchronize(stream));  // the next call may use another stream
}

template class RingAllReduce<float>;
template class RingAllReduce<double>;

}  // namespace ddp
