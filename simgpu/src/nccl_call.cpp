// What a call of NCCL says, whether it makes sense, and what the library says about it.

#include "nccl_call.hpp"

#include "memory.hpp"
#include "quiet_mutex.hpp"
#include "sanitizer.hpp"

namespace simgpu::nccl {
namespace {

struct LastError {
  QuietMutex mutex;
  std::string text;
};

/// A lock that TSan sees, for it sees the copying of the text.
class LastErrorLock {
 public:
  explicit LastErrorLock(LastError& error) : error_(error), lock_(error.mutex) {
    sanitizer::acquire(&error);
  }
  ~LastErrorLock() { sanitizer::release(&error_); }
  LastErrorLock(const LastErrorLock&) = delete;
  LastErrorLock& operator=(const LastErrorLock&) = delete;

 private:
  LastError& error_;
  QuietLock lock_;
};

LastError& last_error() {
  static LastError& made = *new LastError;
  return made;
}

const char* name(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "ncclInt8";
    case ncclUint8:
      return "ncclUint8";
    case ncclInt32:
      return "ncclInt32";
    case ncclUint32:
      return "ncclUint32";
    case ncclInt64:
      return "ncclInt64";
    case ncclUint64:
      return "ncclUint64";
    case ncclFloat16:
      return "ncclFloat16";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
    case ncclNumTypes:
      break;
  }
  return nullptr;
}

const char* name(ncclRedOp_t op) {
  switch (op) {
    case ncclSum:
      return "ncclSum";
    case ncclMax:
      return "ncclMax";
    case ncclMin:
      return "ncclMin";
    case ncclAvg:
      return "ncclAvg";
    case ncclNumOps:
      break;
  }
  return nullptr;
}

bool has_root(Kind kind) { return kind == Kind::broadcast || kind == Kind::reduce; }

std::uintptr_t address(const void* pointer) { return reinterpret_cast<std::uintptr_t>(pointer); }

std::string wrong_buffer(const char* which, const void* pointer, std::size_t bytes,
                         std::size_t alignment, int device) {
  const std::string range = std::string(which) + " (" + std::to_string(bytes) + " bytes)";
  if (pointer == nullptr) return range + " is a null pointer";
  if (address(pointer) % alignment != 0) return range + " is not aligned to its type";
  const auto found = find_allocation(pointer);
  if (!found || found->type != cudaMemoryTypeDevice) return range + " is not in device memory";
  if (found->device != device) {
    return range + " is in memory of device " + std::to_string(found->device) +
           ", the communicator's is device " + std::to_string(device);
  }
  if (!found->holds(pointer, bytes)) return range + " runs past the end of its allocation";
  return {};
}

/// Whether the buffers are neither apart nor where NCCL's rules want them in place.
bool overlaps(const Call& call, int rank, const Extent& extent) {
  const std::uintptr_t send = address(call.send), recv = address(call.recv);
  if (extent.send_bytes == 0 || extent.recv_bytes == 0) return false;
  if (send + extent.send_bytes <= recv || recv + extent.recv_bytes <= send) return false;
  const auto own = static_cast<std::size_t>(rank) * call.count * size_of(call.type);
  if (call.kind == Kind::all_gather) return send != recv + own;
  if (call.kind == Kind::reduce_scatter) return recv != send + own;
  return send != recv;
}

}  // namespace

const char* name(Kind kind) {
  switch (kind) {
    case Kind::all_reduce:
      return "ncclAllReduce";
    case Kind::broadcast:
      return "ncclBroadcast";
    case Kind::reduce:
      return "ncclReduce";
    case Kind::all_gather:
      return "ncclAllGather";
    case Kind::reduce_scatter:
      return "ncclReduceScatter";
    case Kind::send:
      return "ncclSend";
    case Kind::receive:
      return "ncclRecv";
  }
  return "an unknown call";
}

std::string text(const Signature& signature) {
  const char* const type = name(signature.type);
  std::string all = std::string(name(signature.kind)) + "(count " +
                    std::to_string(signature.count) + ", " + (type ? type : "type ?");
  if (is_reduction(signature.kind)) {
    const char* const op = name(signature.op);
    all += std::string(", ") + (op ? op : "reduction ?");
  }
  if (has_root(signature.kind)) all += ", root " + std::to_string(signature.other_rank);
  if (is_point_to_point(signature.kind)) all += ", peer " + std::to_string(signature.other_rank);
  return all + ")";
}

std::size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
    case ncclNumTypes:
      break;
  }
  return 0;
}

Extent extent(const Call& call, int rank, int ranks) {
  const std::size_t one = call.count * size_of(call.type);
  const std::size_t all = one * static_cast<std::size_t>(ranks);
  switch (call.kind) {
    case Kind::all_reduce:
      return {one, one};
    case Kind::broadcast:
      return {rank == call.other_rank ? one : 0, one};
    case Kind::reduce:
      return {one, rank == call.other_rank ? one : 0};
    case Kind::all_gather:
      return {one, all};
    case Kind::reduce_scatter:
      return {all, one};
    case Kind::send:
      return {one, 0};
    case Kind::receive:
      return {0, one};
  }
  return {0, 0};
}

std::string wrong_argument(const Call& call, int rank, int ranks, int device) {
  if (name(call.type) == nullptr) return "type " + std::to_string(call.type) + " is unknown";
  if (is_reduction(call.kind) && name(call.op) == nullptr) {
    return "reduction " + std::to_string(call.op) + " is unknown";
  }
  if (call.other_rank < 0 || call.other_rank >= ranks) {
    return std::string(has_root(call.kind) ? "root " : "peer ") + std::to_string(call.other_rank) +
           " is not one of " + std::to_string(ranks) + " ranks";
  }
  if (call.count > (std::size_t{1} << 56)) return "the count is no number of values";
  const Extent bytes = extent(call, rank, ranks);
  const std::size_t alignment = size_of(call.type);
  std::string wrong;
  if (bytes.send_bytes > 0) {
    wrong = wrong_buffer("the send buffer", call.send, bytes.send_bytes, alignment, device);
  }
  if (wrong.empty() && bytes.recv_bytes > 0) {
    wrong = wrong_buffer("the receive buffer", call.recv, bytes.recv_bytes, alignment, device);
  }
  if (wrong.empty() && overlaps(call, rank, bytes)) {
    wrong = "the buffers overlap, but not as an operation in place wants it";
  }
  return wrong;
}

ncclResult_t failure(ncclResult_t result, const std::string& text) {
  const LastErrorLock lock(last_error());
  last_error().text = text;
  return result;
}

}  // namespace simgpu::nccl

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string copy;  // the pointer stays good until the thread's next call
  const simgpu::nccl::LastErrorLock lock(simgpu::nccl::last_error());
  copy = simgpu::nccl::last_error().text;
  return copy.c_str();
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "a call of CUDA failed";
    case ncclSystemError:
      return "a call of the operating system failed";
    case ncclInternalError:
      return "an error inside of NCCL";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "another rank has failed or has gone";
    case ncclInProgress:
      return "the operation is in progress";
    case ncclNumResults:
      break;
  }
  return "unknown result";
}

ncclResult_t ncclGetVersion(int* version) {
  if (version == nullptr) {
    return simgpu::nccl::failure(ncclInvalidArgument, "ncclGetVersion: a null pointer");
  }
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
