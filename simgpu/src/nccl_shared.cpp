#include "nccl_shared.hpp"

#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <climits>

namespace simgpu::nccl {
namespace {

static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

constexpr std::size_t rounded_up(std::size_t bytes) { return (bytes + 4095) / 4096 * 4096; }
constexpr std::size_t slots_begin = rounded_up(sizeof(Header));

std::size_t channels_begin(int ranks) {
  return slots_begin + static_cast<std::size_t>(ranks) * 2 * slots * slot_bytes;
}
std::size_t total_bytes(int ranks) {
  const auto n = static_cast<std::size_t>(ranks);
  return channels_begin(ranks) + n * n * sizeof(Channel);  // pages that nobody touches cost nothing
}

// std::atomic's own waiting is for the threads of one process.
long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* limit) {
  return syscall(SYS_futex, reinterpret_cast<std::uint32_t*>(&word), operation, value, limit,
                 nullptr, 0);
}

}  // namespace

void Counter::wake() {
  if (sleepers_.load() != 0) futex(value_, FUTEX_WAKE, INT_MAX, nullptr);
}

void Counter::raise_to(std::uint32_t number) {
  value_.store(number);
  wake();
}

void Counter::raise() {
  value_.fetch_add(1);
  wake();
}

void Counter::sleep(std::uint32_t seen) {
  const timespec limit{0, nap_milliseconds * 1000000L};
  ++sleepers_;
  if (value_.load() == seen) futex(value_, FUTEX_WAIT, seen, &limit);
  --sleepers_;
}

SharedMemory::~SharedMemory() {
  if (memory_ != nullptr) munmap(memory_, bytes_);
}

bool SharedMemory::map(int file, std::size_t bytes) {
  if (memory_ != nullptr) munmap(memory_, bytes_);
  void* mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  memory_ = mapped == MAP_FAILED ? nullptr : mapped;
  bytes_ = bytes;
  return memory_ != nullptr;
}

bool SharedMemory::map_header(int file) { return map(file, slots_begin); }

bool SharedMemory::map_everything(int file, int ranks) {
  ranks_ = ranks;
  // Every rank makes it the same size.
  return ftruncate(file, static_cast<off_t>(total_bytes(ranks))) == 0 &&
         map(file, total_bytes(ranks));
}

std::byte* SharedMemory::slot(int rank, std::uint32_t number) const {
  const std::size_t index = static_cast<std::size_t>(rank) * 2 * slots + number;
  return static_cast<std::byte*>(memory_) + slots_begin + index * slot_bytes;
}

Channel& SharedMemory::channel(int from, int to) const {
  auto* const first =
      reinterpret_cast<Channel*>(static_cast<std::byte*>(memory_) + channels_begin(ranks_));
  return first[from * ranks_ + to];
}

}  // namespace simgpu::nccl
