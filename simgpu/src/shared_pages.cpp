#include "shared_pages.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <utility>

#include "nccl_bootstrap.hpp"

namespace simgpu {
namespace {

/// Maps a file where a huge page may begin, and asks for huge pages.
std::byte* map(int file, std::size_t bytes) {
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  // More addresses than needed, of which the file takes the aligned part.
  const std::size_t room = bytes + huge_page;
  void* const reserved = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (reserved == MAP_FAILED) return nullptr;
  auto* const first = static_cast<std::byte*>(reserved);
  const std::size_t skipped =
      (huge_page - reinterpret_cast<std::size_t>(first) % huge_page) % huge_page;
  if (skipped > 0) munmap(first, skipped);
  const std::size_t page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  const std::size_t used = (bytes + page - 1) / page * page;
  if (used < room - skipped) munmap(first + skipped + used, room - skipped - used);
  if (mmap(first + skipped, used, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, file, 0) ==
      MAP_FAILED) {
    munmap(first + skipped, used);
    return nullptr;
  }
  madvise(first + skipped, used, MADV_HUGEPAGE);
  return first + skipped;
}

}  // namespace

SharedPages allocate_shared(std::size_t bytes) {
  const int file = memfd_create("simgpu-memory", MFD_CLOEXEC);
  if (file < 0) return {};
  if (ftruncate(file, static_cast<off_t>(bytes)) == 0) {
    if (std::byte* const begin = map(file, bytes)) return {begin, file};
  }
  close(file);
  return {};
}

void free_shared(const SharedPages& pages, std::size_t bytes) {
  fallocate(pages.file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(bytes));
  munmap(pages.begin, bytes);
  close(pages.file);
}

ino_t inode_of(int file) {
  struct stat found {};
  return fstat(file, &found) == 0 ? found.st_ino : 0;
}

PeerPages::PeerPages(pid_t process, int file, ino_t inode, std::size_t bytes) : bytes_(bytes) {
  const std::string path = "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
  const nccl::File opened(open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (opened && inode_of(opened.get()) == inode) begin_ = map(opened.get(), bytes);
}

PeerPages::PeerPages(PeerPages&& other) noexcept
    : begin_(std::exchange(other.begin_, nullptr)), bytes_(other.bytes_) {}

PeerPages::~PeerPages() {
  if (begin_ != nullptr) munmap(begin_, bytes_);
}

}  // namespace simgpu
