#pragma once
// Large device allocations of a program with NCCL lie in anonymous memory files, one each, so that
// the processes of other ranks can map them: on real machines, too, the GPUs of one host reach each
// other's memory. Such a file has no name, and nothing is left of it once the last process has
// gone.

#include <sys/types.h>

#include <cstddef>

namespace simgpu {

/// Pages of a memory file, mapped; `begin` is null where there are none.
struct SharedPages {
  std::byte* begin = nullptr;
  int file = -1;
};

/// From this size on an allocation is worth a file.
constexpr std::size_t least_shared_bytes = std::size_t{1} << 20;

/// Fresh pages for `bytes`; none if the system has no more files or memory to give.
SharedPages allocate_shared(std::size_t bytes);
/// Gives the memory back at once, even if another process has it mapped.
void free_shared(const SharedPages& pages, std::size_t bytes);

/// What tells a file from all others while it is open.
ino_t inode_of(int file);

/// The pages of another process, mapped until the end.
class PeerPages {
 public:
  /// Maps `bytes` of the file that `process` has open as `file`, unless that is another one than
  /// `inode`. A system that does not let us look at the process's files is no error: begin() is
  /// null.
  PeerPages(pid_t process, int file, ino_t inode, std::size_t bytes);
  PeerPages(PeerPages&& other) noexcept;
  PeerPages& operator=(PeerPages&&) = delete;
  ~PeerPages();
  std::byte* begin() const { return begin_; }

 private:
  std::byte* begin_ = nullptr;
  std::size_t bytes_;
};

}  // namespace simgpu
