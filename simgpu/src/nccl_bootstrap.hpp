#pragma once
// How the ranks of a communicator find each other: the unique id is the name of an abstract Unix
// socket, on which a thread of the process that made the id hands out the descriptor of the shared
// memory, once to each rank. Such a name is no file: nothing is left of it when the process has
// gone, and ranks need no rights over each other's processes.

#include <functional>

#include "nccl.h"

namespace simgpu::nccl {

/// A file descriptor that is closed at the end.
class File {
 public:
  explicit File(int descriptor = -1) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(other.descriptor_) { other.descriptor_ = -1; }
  File& operator=(File&&) = delete;
  ~File();
  int get() const { return descriptor_; }
  explicit operator bool() const { return descriptor_ >= 0; }

 private:
  int descriptor_;
};

/// Makes an id and starts to serve it. False: errno says why.
bool serve(ncclUniqueId& id);

bool looks_made(const ncclUniqueId& id);

/// The shared memory for which an id stands; no file if its maker has gone or has served all of the
/// `ranks`, or if `give_up` said so.
File fetch_memory(const ncclUniqueId& id, int ranks, const std::function<bool()>& give_up);

}  // namespace simgpu::nccl
