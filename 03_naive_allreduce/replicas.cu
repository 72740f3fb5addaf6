#include "03_naive_allreduce/replicas.hpp"

#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "common/io/checksum.hpp"

namespace ddp {

template <class T>
void broadcast_parameters(const ParameterStore<T>& store, const mpi::Communicator& communicator,
                          const cuda::Stream& stream) {
  // [exercise 3.2] All of rank 0's values, weights and biases, to all. MPI knows host memory only.
  std::vector<T> values = cuda::download(store.values().data(), store.values().size(), stream);
  communicator.broadcast(std::span<T>(values), 0);
  cuda::upload(store.values().data(), std::span<const T>(values), stream);
  // [/exercise]
}

template <class T>
void check_replicas(const ParameterStore<T>& store, const mpi::Communicator& communicator,
                    const cuda::Stream& stream, const std::string& when) {
  // [exercise 3.4] Write one checksum a parameter; compare those of all ranks with rank 0's.
  std::string mine;
  for (const std::span<const T>& values : store.value_views()) {
    const std::vector<T> host = cuda::download(values.data(), values.size(), stream);
    Checksum checksum;
    checksum.add(std::as_bytes(std::span(host)));
    mine += checksum_text(checksum.value());
  }
  const std::vector<std::string> all = communicator.all_gather(mine);
  const std::size_t length = mine.size() / store.parameters().size();
  for (std::size_t p = 0; p < store.parameters().size(); ++p) {
    std::string ranks;
    for (std::size_t rank = 1; rank < all.size(); ++rank) {
      if (all[rank].compare(p * length, length, all[0], p * length, length) == 0) continue;
      ranks += (ranks.empty() ? "" : ", ") + std::to_string(rank);
    }
    if (ranks.empty()) continue;
    throw AgreedError(ExitCode::peer, "replicas are not one model " + when + ": parameter " +
                                          store.parameters()[p].name + " on rank " + ranks +
                                          " differs from rank 0's");
  }
  // [/exercise]
}

template void broadcast_parameters(const ParameterStore<float>&, const mpi::Communicator&,
                                   const cuda::Stream&);
template void broadcast_parameters(const ParameterStore<double>&, const mpi::Communicator&,
                                   const cuda::Stream&);
template void check_replicas(const ParameterStore<float>&, const mpi::Communicator&,
                             const cuda::Stream&, const std::string&);
template void check_replicas(const ParameterStore<double>&, const mpi::Communicator&,
                             const cuda::Stream&, const std::string&);

}  // namespace ddp
