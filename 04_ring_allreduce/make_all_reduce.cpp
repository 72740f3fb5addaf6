#include "04_ring_allreduce/make_all_reduce.hpp"

#include <stdexcept>

#include "03_naive_allreduce/naive_allreduce.hpp"
#include "04_ring_allreduce/mpi_allreduce.hpp"
#include "04_ring_allreduce/ring_allreduce.hpp"
#include "04_ring_allreduce/ring_segmented.hpp"
#include "04_ring_allreduce/tree_allreduce.hpp"

namespace ddp {

template <class T>
std::unique_ptr<AllReduce<T>> make_all_reduce(AllReduceKind kind,
                                              const mpi::Communicator& communicator,
                                              bool device_pointers) {
  switch (kind) {
    case AllReduceKind::naive:
      return std::make_unique<NaiveAllReduce<T>>(communicator, device_pointers);
    case AllReduceKind::ring:
      return std::make_unique<RingAllReduce<T>>(communicator, device_pointers);
    case AllReduceKind::ring_segmented:
      return std::make_unique<RingSegmentedAllReduce<T>>(communicator, device_pointers);
    case AllReduceKind::tree:
      return std::make_unique<TreeAllReduce<T>>(communicator, device_pointers);
    case AllReduceKind::mpi:
      return std::make_unique<MpiAllReduce<T>>(communicator, device_pointers);
    case AllReduceKind::nccl:  // stage 05
      break;
  }
  throw std::invalid_argument("unknown kind of all-reduce");
}

template std::unique_ptr<AllReduce<float>> make_all_reduce(AllReduceKind, const mpi::Communicator&,
                                                           bool);
template std::unique_ptr<AllReduce<double>> make_all_reduce(AllReduceKind, const mpi::Communicator&,
                                                            bool);

}  // namespace ddp
