#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "01_single_gpu/parameter_store.hpp"
#include "common/cli/options.hpp"
#include "common/cuda/stream.hpp"
#include "common/mpi/communicator.hpp"

namespace ddp {

/// Other first weights on every rank, on purpose: were they drawn from one seed, nobody would
/// notice a forgotten broadcast.
inline Options seeded_apart(Options options, int rank) {
  options.seed += static_cast<std::uint64_t>(rank);
  return options;
}

/// Rank 0's parameters to every rank, so that all start from one model. Collective.
template <class T>
void broadcast_parameters(const ParameterStore<T>& store, const mpi::Communicator& communicator,
                          const cuda::Stream& stream);

/// Compares the bits of every parameter on all ranks by their checksums. Replicas start equal and
/// get equal updates: one differing bit is a mistake, however small. (A norm would not do: it is
/// blind to a permutation, and a tolerance to everything slow.) Throws AgreedError on all ranks,
/// with the first parameter that differs and the ranks on which it does not have rank 0's bits.
/// `when` is put into the message: "at the start", "after step 3". Collective; waits for the
/// device.
template <class T>
void check_replicas(const ParameterStore<T>& store, const mpi::Communicator& communicator,
                    const cuda::Stream& stream, const std::string& when);

/// When a training run checks its replicas: at the start and at the end, and after every step whose
/// number --check-replicas divides. Never with --no-broadcast, which is there to see them drift.
template <class T>
class ReplicaCheck {
 public:
  /// At the start: this is the first check.
  ReplicaCheck(const Options& options, const ParameterStore<T>& store,
               const mpi::Communicator& communicator, const cuda::Stream& stream)
      : interval_(options.check_replicas),
        off_(options.no_broadcast),
        store_(store),
        communicator_(communicator),
        stream_(stream) {
    check("at the start");
  }

  void after(std::int64_t step) const {
    if (interval_ > 0 && step % interval_ == 0) check("after step " + std::to_string(step));
  }
  void at_the_end() const { check("at the end"); }

 private:
  void check(const std::string& when) const {
    if (!off_) check_replicas(store_, communicator_, stream_, when);
  }

  int interval_;
  bool off_;
  const ParameterStore<T>& store_;
  const mpi::Communicator& communicator_;
  const cuda::Stream& stream_;
};

}  // namespace ddp
