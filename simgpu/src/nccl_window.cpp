#include "nccl_window.hpp"

#include <algorithm>

#include "memory.hpp"
#include "nccl_communicator.hpp"
#include "nccl_reduce.hpp"

namespace simgpu::nccl {
namespace {

Window window_of(const void* values, std::size_t bytes) {
  const auto found = find_allocation(values);
  if (!found || found->file < 0) return {};
  const std::size_t offset = reinterpret_cast<std::uintptr_t>(values) - found->begin;
  return {found->number, inode_of(found->file), found->file, found->bytes, offset, bytes};
}

}  // namespace

void PeerMemory::tidy(int ranks) {
  if (mapped_.size() > enough * static_cast<std::size_t>(ranks)) mapped_.clear();
}

std::byte* PeerMemory::find(int rank, std::int32_t process, const Window& window) {
  const std::pair key(rank, window.allocation);
  auto found = mapped_.find(key);
  if (found == mapped_.end()) {
    PeerPages pages(process, window.file, static_cast<ino_t>(window.inode), window.allocated);
    if (pages.begin() == nullptr) return nullptr;
    found = mapped_.emplace(key, std::move(pages)).first;
  }
  return found->second.begin() + window.offset;
}

bool WindowedAllReduce::wait_for_all(Counter Member::*counter) const {
  for (int other = 0; other < comm_.ranks; ++other) {
    if (other == comm_.rank) continue;
    Member& member = comm_.shared.member(other);
    if (!wait_for(comm_, member.*counter, number_, other, call_)) return false;
  }
  return true;
}

bool WindowedAllReduce::reach_all() {
  const std::size_t bytes = call_.count * size_of(call_.type);
  for (int rank = 0; rank < comm_.ranks; ++rank) {
    const Member& member = comm_.shared.member(rank);
    for (const Window& window : {member.send, member.recv}) {
      if (window.file < 0 || window.bytes != bytes) return false;
    }
    const auto i = static_cast<std::size_t>(rank);
    if (rank == comm_.rank) {
      send_[i] = static_cast<const std::byte*>(call_.send);
      recv_[i] = static_cast<std::byte*>(call_.recv);
    } else {
      send_[i] = comm_.peer_memory.find(rank, member.process, member.send);
      recv_[i] = comm_.peer_memory.find(rank, member.process, member.recv);
    }
    if (send_[i] == nullptr || recv_[i] == nullptr) return false;
  }
  return true;
}

void WindowedAllReduce::post() {
  number_ = ++comm_.window_calls;
  Member& self = comm_.self();
  const std::size_t bytes = call_.count * size_of(call_.type);
  self.send = window_of(call_.send, bytes);
  self.recv = window_of(call_.recv, bytes);
}

bool WindowedAllReduce::open() {
  Member& self = comm_.self();
  comm_.peer_memory.tidy(comm_.ranks);
  self.reaches_all = reach_all();
  self.mapped.raise_to(number_);
  if (!wait_for_all(&Member::mapped)) return false;
  for (int rank = 0; rank < comm_.ranks; ++rank) {
    if (!comm_.shared.member(rank).reaches_all) return false;
  }
  return true;
}

void WindowedAllReduce::run() {
  const auto ranks = static_cast<std::size_t>(comm_.ranks);
  const auto self = static_cast<std::size_t>(comm_.rank);
  const std::size_t size = size_of(call_.type);
  constexpr std::size_t block_bytes = std::size_t{16} << 10;  // stay in the nearest cache
  const std::size_t block = block_bytes / size;
  const std::size_t count_of_all = call_.count - begin_;
  const std::size_t end = begin_ + count_of_all * (self + 1) / ranks;
  for (std::size_t i = begin_ + count_of_all * self / ranks; i < end; i += block) {
    if (comm_.stopped()) return;
    const std::size_t count = std::min(block, end - i);
    std::array<const std::byte*, max_ranks> inputs;
    for (std::size_t rank = 0; rank < ranks; ++rank) inputs[rank] = send_[rank] + i * size;
    std::byte* const sums = recv_[self] + i * size;
    reduce({inputs.data(), ranks}, sums, nullptr, count, call_.type, call_.op);
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank != self) copy_bytes(recv_[rank] + i * size, sums, count * size);
    }
  }
  comm_.self().finished.raise_to(number_);
  (void)wait_for_all(&Member::finished);
}

}  // namespace simgpu::nccl
