#include "common/mpi/call_board.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <new>

#include "common/mpi/check.hpp"

namespace ddp::mpi {

struct CallBoard::Slot {
  int rank;
  CallRecord record;
};

// What the memory begins with; the slots, one for each rank of the host, come behind it.
struct alignas(64) CallBoard::Shared {
  std::atomic<bool> claimed = false;
};

CallBoard::Slot* CallBoard::slot(int index) const {
  return reinterpret_cast<Slot*>(shared_ + 1) + index;
}

namespace {

// Maps `bytes` of the file, or of memory of this process alone (-1). Null where that fails.
void* map(int file, std::size_t bytes) {
  const int flags = MAP_SHARED | (file < 0 ? MAP_ANONYMOUS : 0);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
  return memory == MAP_FAILED ? nullptr : memory;
}

// The first rank of `host` makes a file without a name, the others open it through that process.
// Collective; null where this rank has no access to it.
void* map_shared(MPI_Comm host, std::size_t bytes) {
  int rank = 0;
  check(MPI_Comm_rank(host, &rank));
  int file = -1;
  std::array<long, 2> process_and_file{};
  if (rank == 0) {
    file = memfd_create("ddp_call_board", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      close(file);
      file = -1;
    }
    process_and_file = {getpid(), file};
  }
  check(MPI_Bcast(process_and_file.data(), 2, MPI_LONG, 0, host));
  if (rank != 0 && process_and_file[1] >= 0) {
    std::array<char, 64> path{};
    std::snprintf(path.data(), path.size(), "/proc/%ld/fd/%ld", process_and_file[0],
                  process_and_file[1]);
    file = open(path.data(), O_RDWR | O_CLOEXEC);
  }
  void* const memory = file < 0 ? nullptr : map(file, bytes);
  check(MPI_Barrier(host));  // until all have opened it
  if (file >= 0) close(file);
  return memory;
}

}  // namespace

CallBoard::CallBoard(MPI_Comm world) {
  int rank = 0;
  check(MPI_Comm_rank(world, &rank));
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(world, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host));
  int host_rank = 0;
  check(MPI_Comm_rank(host, &host_rank));
  check(MPI_Comm_size(host, &slots_));
  bytes_ = sizeof(Shared) + static_cast<std::size_t>(slots_) * sizeof(Slot);
  void* memory = map_shared(host, bytes_);
  int shared_by_all = memory != nullptr;
  check(MPI_Allreduce(MPI_IN_PLACE, &shared_by_all, 1, MPI_INT, MPI_MIN, host));
  if (shared_by_all == 0) {
    if (memory != nullptr) munmap(memory, bytes_);
    slots_ = 1;
    host_rank = 0;
    memory = map(-1, bytes_);
    if (memory == nullptr) throw std::bad_alloc();
  }
  shared_ = static_cast<Shared*>(memory);
  if (host_rank == 0) new (shared_) Shared;
  Slot* const own = new (slot(host_rank)) Slot{rank, {}};
  place_own_record(&own->record);
  check(MPI_Barrier(host));  // the whole board is made
  check(MPI_Comm_free(&host));
}

CallBoard::~CallBoard() {
  place_own_record(nullptr);
  munmap(shared_, bytes_);
}

std::vector<RankCall> CallBoard::read() const {
  std::vector<RankCall> calls;
  for (int index = 0; index < slots_; ++index) {
    calls.push_back({slot(index)->rank, slot(index)->record.read()});
  }
  std::sort(calls.begin(), calls.end(), [](auto& a, auto& b) { return a.rank < b.rank; });
  return calls;
}

bool CallBoard::claim_report() const { return !shared_->claimed.exchange(true); }

bool CallBoard::report_claimed() const { return shared_->claimed.load(); }

}  // namespace ddp::mpi
