#pragma once
// Large all-reduces without a copy. Each rank says where its values lie, in device memory that the
// others can map (shared_pages.hpp); then each adds up its share of the values, reading those of
// all ranks where they are, and writes the sums to all ranks:
//
//     post     where my values and results lie; seen with the first turn of the slots
//     map      the others' memory, unless I have it from a call before
//     add      once all have mapped: my share, in rank order, block by block
//     finish   and go on once all have
//
// A rank comes to `add` only if all have called, so nobody writes to a rank that does not expect
// it.

#include <array>
#include <cstddef>
#include <map>
#include <utility>

#include "nccl_call.hpp"
#include "nccl_shared.hpp"
#include "shared_pages.hpp"

struct ncclComm;

namespace simgpu::nccl {

/// The memory of other ranks, mapped when a call first needs it.
class PeerMemory {
 public:
  /// Before the finds of a call: forgets all if there is much, for some of it may have been freed.
  void tidy(int ranks);
  /// Where `window` of `rank`, which is process `process`, begins here, until the next tidy();
  /// null: not to be reached.
  std::byte* find(int rank, std::int32_t process, const Window& window);

 private:
  static constexpr std::size_t enough = 32;                    // allocations of a rank
  std::map<std::pair<int, std::uint64_t>, PeerPages> mapped_;  // by rank and allocation
};

/// The values of an all-reduce from `begin` on.
class WindowedAllReduce {
 public:
  WindowedAllReduce(ncclComm& comm, const Call& call, std::size_t begin)
      : comm_(comm), call_(call), begin_(begin) {}

  void post();
  /// Once all have posted. False, on all of them: some rank cannot reach the memory of all, or the
  /// communicator was stopped; nothing has happened to the values.
  bool open();
  void run();

 private:
  bool wait_for_all(Counter Member::*counter) const;
  bool reach_all();

  ncclComm& comm_;
  const Call& call_;
  const std::size_t begin_;
  std::uint32_t number_ = 0;
  std::array<const std::byte*, max_ranks> send_;
  std::array<std::byte*, max_ranks> recv_;
};

}  // namespace simgpu::nccl
