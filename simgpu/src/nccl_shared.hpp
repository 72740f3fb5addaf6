#pragma once
// The memory that the ranks of a communicator share: an anonymous memory file, of which nothing is
// left once the last rank has gone, however it went. A file of zeros is a valid beginning.

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "nccl_call.hpp"

namespace simgpu::nccl {

constexpr int max_ranks = 64;  // as many as there can be devices
/// What a rank hands over at once: small enough to stay in a core's cache.
constexpr std::size_t slot_bytes = std::size_t{128} << 10;
constexpr std::uint32_t slots = 2;  // one is filled while the other is read

/// A number that some ranks raise and others wait for. Who waits longer sleeps in the kernel.
class alignas(64) Counter {
 public:
  std::uint32_t value() const { return value_.load(std::memory_order_acquire); }
  /// Whether the counter has come to `number`; it may have wrapped around.
  bool reached(std::uint32_t number) const {
    return static_cast<std::int32_t>(value() - number) >= 0;
  }
  void raise_to(std::uint32_t number);  ///< for the only rank that raises it
  void raise();
  /// Sleeps while the value is `seen`, but not longer than nap_milliseconds.
  void sleep(std::uint32_t seen);

 private:
  void wake();
  std::atomic<std::uint32_t> value_;
  std::atomic<std::uint32_t> sleepers_;
};
constexpr int nap_milliseconds = 20;

/// What a device is recognised by.
struct DeviceIdentity {
  std::array<char, 64> host{};
  std::array<char, 16> uuid{};
  bool operator==(const DeviceIdentity&) const = default;
};

/// Why a rank takes no part any more.
enum Departure : int { here, destroyed, aborted };

/// Where the values of a call lie.
struct Window {
  std::uint64_t allocation;  ///< its number in its process
  std::uint64_t inode;       ///< of the file of its pages
  int file = -1;             ///< as its process has it open; -1: nobody else can map the values
  std::uint64_t allocated, offset, bytes;
};

/// One rank as the others see it.
struct Member {
  std::atomic<int> taken;
  Counter joined;  ///< 1: what follows is filled in
  std::int32_t process;
  int device;
  DeviceIdentity identity;

  Counter ready;  ///< how many slots of values the rank has filled
  Counter done;   ///< how many turns of all ranks' slots it is done with; see nccl_collective.cpp
  Counter bell;   ///< rung when something happened in a channel of this rank

  // Of large all-reduces, by their number; see nccl_window.hpp.
  Window send, recv;
  bool reaches_all;  ///< whether this rank has mapped those of all others
  Counter mapped;    ///< `reaches_all` is filled in
  Counter finished;  ///< the rank's share of the sums is in all ranks' memory

  // For SIMGPU_NCCL=diagnose only.
  static constexpr std::uint32_t remembered = 4;
  Counter calls;                                 ///< how many collective calls it has begun
  std::array<Signature, remembered> signatures;  ///< of the last ones
  std::atomic<int> departure;
};

/// The head of the memory.
struct Header {
  std::atomic<int> ranks;
  std::atomic<int> refusals;  ///< of the first rank that found that they cannot work together
  Counter refused;            ///< 1: `refusal` is filled in
  std::array<char, 240> refusal;
  std::atomic<int> explained;  ///< whether some rank has explained a mismatch
  std::array<Member, max_ranks> members;
};

/// What one rank sends to another one: a queue of two pieces.
struct Channel {
  static constexpr std::size_t piece_bytes = std::size_t{64} << 10;
  Counter filled;
  Counter emptied;
  std::array<Signature, slots> signatures;  ///< of the messages that the pieces belong to
  alignas(64) std::array<std::array<std::byte, piece_bytes>, slots> pieces;
};

/// A mapping of the memory.
class SharedMemory {
 public:
  SharedMemory() = default;
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  /// Maps the head; then, once the number of ranks is known to be right, everything. False: errno.
  bool map_header(int file);
  bool map_everything(int file, int ranks);

  bool mapped() const { return memory_ != nullptr; }
  Header& header() const { return *static_cast<Header*>(memory_); }
  Member& member(int rank) const { return header().members[static_cast<std::size_t>(rank)]; }
  /// Where `rank` puts the values of a turn, and where it puts results.
  std::byte* values(int rank, std::uint32_t turn) const { return slot(rank, turn % slots); }
  std::byte* results(int rank, std::uint32_t turn) const {
    return slot(rank, slots + turn % slots);
  }
  Channel& channel(int from, int to) const;

 private:
  bool map(int file, std::size_t bytes);
  std::byte* slot(int rank, std::uint32_t number) const;

  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
  int ranks_ = 0;
};

}  // namespace simgpu::nccl
