// Sends and receives: a channel of two pieces for each pair of ranks and direction. All messages of
// a group move in turns, piece by piece, so that none waits for another one; those between the same
// two ranks in one direction go in order.

#include <algorithm>
#include <array>
#include <vector>

#include "nccl_diagnose.hpp"
#include "nccl_group.hpp"
#include "nccl_link.hpp"
#include "nccl_reduce.hpp"
#include "settings.hpp"

namespace simgpu::nccl {
namespace {

struct Transfer {
  const Call* call;
  std::size_t bytes;
  std::size_t moved = 0;
  bool complete() const { return moved == bytes; }
};

class Messages {
 public:
  Messages(ncclComm& comm, std::span<const Call> calls) : comm_(comm) {
    for (const Call& call : calls) {
      transfers_.push_back({&call, static_cast<std::size_t>(call.count) * size_of(call.type)});
    }
  }

  void run() {
    Spin spin(comm_.ranks);
    Patience patience(comm_, *transfers_.front().call);
    while (!comm_.stopped()) {
      Counter& bell = comm_.self().bell;
      const std::uint32_t seen = bell.value();
      const bool moved = move_all();
      if (comm_.stopped()) return;  // a message did not match
      if (std::all_of(transfers_.begin(), transfers_.end(),
                      [](const Transfer& one) { return one.complete(); })) {
        return;
      }
      if (moved) {
        spin = Spin(comm_.ranks);
      } else if (!spin.again()) {
        bell.sleep(seen);
        const auto came = [&] { return bell.value() != seen; };
        if (!came() && !patience.last(missing(), came)) return;
      }
    }
  }

  /// When the last message began to move.
  Clock::time_point all_began() const { return all_began_; }

 private:
  /// Moves a piece of whatever can move; says whether something did.
  bool move_all() {
    bool moved = false;
    std::array<bool, max_ranks> sending{}, receiving{};  // to and from whom an earlier one goes on
    for (Transfer& transfer : transfers_) {
      if (transfer.complete()) continue;
      const auto peer = static_cast<std::size_t>(transfer.call->other_rank);
      bool& busy = (transfer.call->kind == Kind::send ? sending : receiving)[peer];
      if (busy) continue;
      const bool began = transfer.moved > 0;
      if (transfer.call->kind == Kind::send ? send(transfer) : receive(transfer)) {
        moved = true;
        if (!began) all_began_ = Clock::now();
      }
      busy = !transfer.complete();
    }
    return moved;
  }

  bool send(Transfer& transfer) {
    const int peer = transfer.call->other_rank;
    Channel& channel = comm_.shared.channel(comm_.rank, peer);
    std::uint32_t& sent = comm_.pieces_sent[static_cast<std::size_t>(peer)];
    if (!channel.emptied.reached(sent + 1 - slots)) return false;
    const std::size_t bytes = next_piece(transfer);
    copy_bytes(channel.pieces[sent % slots].data(),
               static_cast<const std::byte*>(transfer.call->send) + transfer.moved, bytes);
    channel.signatures[sent % slots] = *transfer.call;
    transfer.moved += bytes;
    channel.filled.raise_to(++sent);
    comm_.shared.member(peer).bell.raise();
    return true;
  }

  bool receive(Transfer& transfer) {
    const int peer = transfer.call->other_rank;
    Channel& channel = comm_.shared.channel(peer, comm_.rank);
    std::uint32_t& received = comm_.pieces_received[static_cast<std::size_t>(peer)];
    if (!channel.filled.reached(received + 1)) return false;
    if (settings().nccl == Nccl::diagnose &&
        !agree_on_message(comm_, channel.signatures[received % slots], *transfer.call)) {
      return false;
    }
    const std::size_t bytes = next_piece(transfer);
    copy_bytes(static_cast<std::byte*>(transfer.call->recv) + transfer.moved,
               channel.pieces[received % slots].data(), bytes);
    transfer.moved += bytes;
    channel.emptied.raise_to(++received);
    comm_.shared.member(peer).bell.raise();
    return true;
  }

  static std::size_t next_piece(const Transfer& transfer) {
    return std::min(Channel::piece_bytes, transfer.bytes - transfer.moved);
  }

  /// The ranks of the messages that have not arrived.
  std::vector<int> missing() const {
    std::vector<int> peers;
    for (const Transfer& transfer : transfers_) {
      const int peer = transfer.call->other_rank;
      if (!transfer.complete() && std::find(peers.begin(), peers.end(), peer) == peers.end()) {
        peers.push_back(peer);
      }
    }
    return peers;
  }

  ncclComm& comm_;
  std::vector<Transfer> transfers_;
  Clock::time_point all_began_{};
};

}  // namespace

void run_messages(ncclComm& comm, std::span<const Call> calls) {
  Messages messages(comm, calls);
  messages.run();
  std::uint64_t sent = 0, received = 0;  // over the link: not to itself
  for (const Call& call : calls) {
    if (call.other_rank == comm.rank) continue;
    (call.kind == Kind::send ? sent : received) += call.count * size_of(call.type);
  }
  const double seconds = transfer_seconds(sent, received);
  if (seconds == 0 || comm.stopped()) return;
  sleep_until(occupy_link(comm.device.physical, messages.all_began(), seconds),
              [&comm] { return comm.stopped(); });
}

}  // namespace simgpu::nccl
