// The algorithm of all collectives. Values go through slots in shared memory that stay in the
// cores' caches, in turns of at most slot_bytes of each rank. A turn has three parts:
//
//     put    copy what others need of mine into my slot; then raise `ready`
//     work   when all are ready: read their slots, in rank order; then raise `done`
//     take   all-reduce of many ranks only, when all are done: read the others' results
//
//     rank 0   put 0   put 1   work 0   take 0   put 2   work 1   take 1   ...
//     rank 1   put 0   put 1   work 0   take 0   put 2   work 1   take 1   ...
//
// so that a rank that is a little late keeps nobody waiting. Two slots a rank are enough: put n
// waits until all are done with turn n - 2, and work n, which may overwrite the results of turn
// n - 2, sees all ranks past put n, which comes after their take n - 2.
//
// An all-reduce of two ranks, or of few values, is `direct`: each adds up all values by itself,
// which needs one meeting rather than two. Otherwise each rank adds up its share of the values. Of
// an all-reduce with more than one turn, only the first goes through slots if the ranks can map
// each other's memory; see nccl_window.hpp.

#include <algorithm>
#include <array>

#include "nccl_diagnose.hpp"
#include "nccl_group.hpp"
#include "nccl_link.hpp"
#include "nccl_reduce.hpp"
#include "nccl_window.hpp"
#include "settings.hpp"

namespace simgpu::nccl {
namespace {

constexpr std::size_t direct_bytes = 16 << 10;  // the most, for more than two ranks

class Collective {
 public:
  Collective(ncclComm& comm, const Call& call)
      : comm_(comm), call_(call), rank_(comm.rank), ranks_(comm.ranks), size_(size_of(call.type)) {
    const bool in_rows = call.kind == Kind::reduce_scatter;
    const std::size_t slot = slot_bytes / size_;
    most_ = in_rows ? slot / static_cast<std::size_t>(ranks_) : slot;
    direct_ = ranks_ == 2 || call.count * size_ <= direct_bytes;
  }

  void run() {
    if (settings().nccl == Nccl::diagnose && !agree(comm_, call_)) return;
    if (ranks_ == 1) return copy_own();
    const std::size_t turns = (call_.count + most_ - 1) / most_;
    if (call_.kind != Kind::all_reduce || turns == 1) {
      take_turns(0, turns);
      return;
    }
    WindowedAllReduce rest(comm_, call_, most_);
    rest.post();
    if (!take_turns(0, 1)) return;
    if (rest.open()) {
      rest.run();
    } else {
      take_turns(1, turns);
    }
  }

  Clock::time_point all_came() const { return all_came_; }

 private:
  /// False: stopped.
  bool take_turns(std::size_t begin, std::size_t end) {
    const auto first = comm_.slots_filled - static_cast<std::uint32_t>(begin);
    comm_.slots_filled += static_cast<std::uint32_t>(end - begin);
    bool goes_on = !comm_.stopped() && put(turn(first, begin));
    for (std::size_t i = begin; goes_on && i < end; ++i) {
      if (i + 1 < end) goes_on = put(turn(first, i + 1));
      goes_on = goes_on && work(turn(first, i));
      if (i == 0) all_came_ = Clock::now();
      goes_on = goes_on && take(turn(first, i));
    }
    return goes_on;
  }

  struct Turn {
    std::uint32_t number;       // of the communicator's turns, wraps around
    std::size_t begin, length;  // which values, of a row where there are rows
  };

  Turn turn(std::uint32_t first, std::size_t i) const {
    return {first + static_cast<std::uint32_t>(i), i * most_,
            std::min(most_, call_.count - i * most_)};
  }

  const std::byte* send(std::size_t value) const {
    return static_cast<const std::byte*>(call_.send) + value * size_;
  }
  std::byte* recv(std::size_t value) const {
    return static_cast<std::byte*>(call_.recv) + value * size_;
  }
  std::size_t row(int rank) const { return static_cast<std::size_t>(rank) * call_.count; }
  bool is_root() const { return rank_ == call_.other_rank; }
  std::byte* values(int rank, const Turn& turn) const {
    return comm_.shared.values(rank, turn.number);
  }

  /// Where the share of `rank` begins among n values.
  std::size_t share(std::size_t n, int rank) const {
    return n * static_cast<std::size_t>(rank) / static_cast<std::size_t>(ranks_);
  }

  /// Whatever one rank calls, its result is what it has.
  void copy_own() const {
    if (call_.send != call_.recv) copy_bytes(call_.recv, call_.send, call_.count * size_);
  }

  bool wait_for_all(Counter Member::*counter, std::uint32_t number) const {
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      if (!wait_for(comm_, comm_.shared.member(other).*counter, number, other, call_)) return false;
    }
    return true;
  }

  bool put(const Turn& turn) const {
    if (!wait_for_all(&Member::done, turn.number - 1)) return false;
    std::byte* const slot = values(rank_, turn);
    switch (call_.kind) {
      case Kind::all_reduce:
        if (direct_) {
          copy_bytes(slot, send(turn.begin), turn.length * size_);
        } else {  // all but the own share
          const std::size_t own = share(turn.length, rank_), next = share(turn.length, rank_ + 1);
          copy_bytes(slot, send(turn.begin), own * size_);
          copy_bytes(slot + next * size_, send(turn.begin + next), (turn.length - next) * size_);
        }
        break;
      case Kind::broadcast:
        if (is_root()) copy_bytes(slot, send(turn.begin), turn.length * size_);
        break;
      case Kind::reduce:
        if (!is_root()) copy_bytes(slot, send(turn.begin), turn.length * size_);
        break;
      case Kind::all_gather:
        copy_bytes(slot, send(turn.begin), turn.length * size_);
        break;
      case Kind::reduce_scatter:
        for (int other = 0; other < ranks_; ++other) {
          if (other == rank_) continue;
          copy_bytes(slot + static_cast<std::size_t>(other) * most_ * size_,
                     send(row(other) + turn.begin), turn.length * size_);
        }
        break;
      case Kind::send:
      case Kind::receive:
        break;
    }
    comm_.self().ready.raise_to(turn.number + 1);
    return true;
  }

  bool work(const Turn& turn) const {
    if (!wait_for_all(&Member::ready, turn.number + 1)) return false;
    switch (call_.kind) {
      case Kind::all_reduce:
        if (direct_) {
          add_up(turn, 0, values(rank_, turn), recv(turn.begin), nullptr, turn.length);
        } else {
          const std::size_t own = share(turn.length, rank_), next = share(turn.length, rank_ + 1);
          add_up(turn, own * size_, send(turn.begin + own), recv(turn.begin + own),
                 comm_.shared.results(rank_, turn.number), next - own);
        }
        break;
      case Kind::broadcast:
        if (!is_root()) {
          copy_bytes(recv(turn.begin), values(call_.other_rank, turn), turn.length * size_);
        } else if (call_.recv != call_.send) {
          copy_bytes(recv(turn.begin), send(turn.begin), turn.length * size_);
        }
        break;
      case Kind::reduce:
        if (is_root()) {
          add_up(turn, 0, send(turn.begin), recv(turn.begin), nullptr, turn.length);
        }
        break;
      case Kind::all_gather:
        for (int other = 0; other < ranks_; ++other) {
          const std::byte* const from = other == rank_ ? send(turn.begin) : values(other, turn);
          std::byte* const to = recv(row(other) + turn.begin);
          if (from != to) copy_bytes(to, from, turn.length * size_);
        }
        break;
      case Kind::reduce_scatter:
        add_up(turn, static_cast<std::size_t>(rank_) * most_ * size_, send(row(rank_) + turn.begin),
               recv(turn.begin), nullptr, turn.length);
        break;
      case Kind::send:
      case Kind::receive:
        break;
    }
    comm_.self().done.raise_to(turn.number + 1);
    return true;
  }

  bool take(const Turn& turn) const {
    if (call_.kind != Kind::all_reduce || direct_) return true;
    if (!wait_for_all(&Member::done, turn.number + 1)) return false;
    for (int other = 0; other < ranks_; ++other) {
      if (other == rank_) continue;
      const std::size_t from = share(turn.length, other), to = share(turn.length, other + 1);
      copy_bytes(recv(turn.begin + from), comm_.shared.results(other, turn.number),
                 (to - from) * size_);
    }
    return true;
  }

  /// Reduces what the ranks have at `offset` of their slots; the own values are at `own`.
  void add_up(const Turn& turn, std::size_t offset, const std::byte* own, std::byte* out,
              std::byte* second_out, std::size_t count) const {
    std::array<const std::byte*, max_ranks> inputs;
    for (int other = 0; other < ranks_; ++other) {
      inputs[static_cast<std::size_t>(other)] = other == rank_ ? own : values(other, turn) + offset;
    }
    reduce({inputs.data(), static_cast<std::size_t>(ranks_)}, out, second_out, count, call_.type,
           call_.op);
  }

  ncclComm& comm_;
  const Call& call_;
  const int rank_, ranks_;
  const std::size_t size_;
  std::size_t most_;  // values in a turn
  bool direct_;
  Clock::time_point all_came_{};
};

}  // namespace

void run_collective(ncclComm& comm, const Call& call) {
  ++comm.calls;
  Collective collective(comm, call);
  collective.run();
  const double seconds = ring_seconds(call, comm.ranks);
  if (seconds == 0 || comm.stopped()) return;
  sleep_until(occupy_link(comm.device.physical, collective.all_came(), seconds),
              [&comm] { return comm.stopped(); });
}

}  // namespace simgpu::nccl
