// From a call to a task of a stream: groups, and the order of a communicator's operations.

#include "nccl_group.hpp"

#include <algorithm>
#include <thread>
#include <vector>

#include "memory.hpp"
#include "sanitizer.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"
#include "stream.hpp"

namespace simgpu::nccl {
namespace {

struct Enqueued {
  std::shared_ptr<ncclComm> comm;
  Call call;
  std::shared_ptr<CUstream_st> stream;
};

struct Starting {
  std::shared_ptr<ncclComm> comm;
  ncclUniqueId id;
};

/// The group that a thread has open.
struct Group {
  int depth = 0;
  ncclResult_t error = ncclSuccess;
  std::vector<Enqueued> calls;
  std::vector<Starting> starting;
};

Group& group() {
  thread_local Group open;
  return open;
}

/// The calls of one group for one communicator: collectives in order, then all messages together.
struct GroupTask final : Task {
  explicit GroupTask(std::shared_ptr<ncclComm> comm_) : comm(std::move(comm_)) {
    number = comm->enqueued++;
    waits_for_others = true;
  }
  ~GroupTask() override { ++comm->completed; }

  void run() override {
    const auto is_turn = [this] { return comm->turn.reached(number); };
    while (!is_turn() && !comm->stopped()) comm->turn.sleep(comm->turn.value());
    if (!comm->stopped()) {
      comm->running = true;
      tell_sanitizer();
      for (const Call& call : collectives) run_collective(*comm, call);
      if (!messages.empty()) run_messages(*comm, messages);
      comm->running = false;
    }
    if (is_turn()) comm->turn.raise_to(number + 1);
  }

  /// To the sanitizer the operation is the stream's thread reading and writing the buffers.
  void tell_sanitizer() const {
    const auto tell = [this](const Call& call) {
      const Extent bytes = extent(call, comm->rank, comm->ranks);
      if (bytes.send_bytes > 0) sanitizer::reads(call.send, bytes.send_bytes);
      if (bytes.recv_bytes > 0) sanitizer::writes(call.recv, bytes.recv_bytes);
    };
    for (const Call& call : collectives) tell(call);
    for (const Call& call : messages) tell(call);
  }

  std::shared_ptr<ncclComm> comm;
  std::uint32_t number;
  std::vector<Call> collectives, messages;
};

void push(CUstream_st& stream, std::function<void()> function, bool waits) {
  auto task = std::make_unique<FunctionTask>(std::move(function));
  task->runs_always = true;
  task->waits_for_others = waits;
  enqueue_ordered(stream, std::move(task));
}

/// Enqueues what a group has for one communicator. If it names several streams, the operations run
/// in the first one, when all of them have come so far, and all wait for them.
void enqueue(const std::shared_ptr<ncclComm>& comm, const std::vector<const Enqueued*>& calls) {
  QuietLock lock(comm->order);
  auto task = std::make_unique<GroupTask>(comm);
  std::vector<CUstream_st*> streams;
  for (const Enqueued* one : calls) {
    (is_point_to_point(one->call.kind) ? task->messages : task->collectives).push_back(one->call);
    if (std::find(streams.begin(), streams.end(), one->stream.get()) == streams.end()) {
      streams.push_back(one->stream.get());
    }
  }
  CUstream_st& first = *streams.front();
  for (std::size_t i = 1; i < streams.size(); ++i) {
    auto here = std::make_shared<Recording>();
    push(
        *streams[i], [here] { here->reach(); }, false);
    push(
        first, [here] { here->wait(); }, true);
  }
  enqueue_ordered(first, std::move(task));
  if (streams.size() == 1) return;
  auto done = std::make_shared<Recording>();
  push(
      first, [done] { done->reach(); }, false);
  for (std::size_t i = 1; i < streams.size(); ++i) {
    push(
        *streams[i], [done] { done->wait(); }, true);
  }
}

/// Enqueues all calls of a group; ncclInProgress if some communicator is not blocking.
ncclResult_t enqueue_all(const std::vector<Enqueued>& calls) {
  ncclResult_t result = ncclSuccess;
  std::vector<ncclComm*> seen;
  for (const Enqueued& first : calls) {
    if (std::find(seen.begin(), seen.end(), first.comm.get()) != seen.end()) continue;
    seen.push_back(first.comm.get());
    std::vector<const Enqueued*> of_it;
    for (const Enqueued& other : calls) {
      if (other.comm == first.comm) of_it.push_back(&other);
    }
    enqueue(first.comm, of_it);
    if (!first.comm->used.exchange(true)) ++counters().first_uses;
    if (const auto one = started(*first.comm); one != ncclSuccess) result = one;
  }
  return result;
}

/// Initialises the communicators of a group, all at once, for each waits for the others.
ncclResult_t initialise_all(const std::vector<Starting>& starting) {
  ncclResult_t result = ncclSuccess;
  for (const Starting& one : starting) initialise_later(one.comm, one.id);
  for (const Starting& one : starting) {
    if (!one.comm->blocking) {
      if (result == ncclSuccess) result = ncclInProgress;
      continue;
    }
    while (one.comm->initialising) std::this_thread::sleep_for(std::chrono::microseconds(100));
    if (one.comm->state != ncclSuccess) result = one.comm->state;
  }
  return result;
}

std::shared_ptr<CUstream_st> stream_of(const ncclComm& comm, cudaStream_t handle) {
  if (handle != nullptr) return handle->shared_from_this();
  ++counters().null_stream_calls;
  return null_stream(comm.device);  // whatever device is current
}

ncclResult_t submit(ncclComm_t handle, Call call, cudaStream_t stream_handle) {
  const std::string where = name(call.kind);
  const auto comm = find(handle);
  if (const auto ready = check_ready(comm.get(), where); ready != ncclSuccess) {
    return note_in_group(ready);
  }
  const std::string wrong = wrong_argument(call, comm->rank, comm->ranks, comm->device.ordinal);
  if (!wrong.empty()) return note_in_group(failure(ncclInvalidArgument, where + ": " + wrong));
  if (call.count == 0) return ncclSuccess;
  auto stream = stream_of(*comm, stream_handle);
  const cudaError_t error =
      &stream->device == &comm->device
          ? current().device == nullptr ? current().error : comm->device.sticky.load()
          : cudaErrorInvalidResourceHandle;
  if (error != cudaSuccess) {
    return note_in_group(
        failure(ncclUnhandledCudaError, where + ": the stream: " + cudaGetErrorString(error)));
  }
  ++counters().collectives;
  const Enqueued one{comm, call, std::move(stream)};
  if (group().depth == 0) return enqueue_all({one});
  group().calls.push_back(one);
  return ncclSuccess;
}

}  // namespace

ncclResult_t note_in_group(ncclResult_t result) {
  if (group().depth > 0 && group().error == ncclSuccess) group().error = result;
  return result;
}

bool initialise_in_group(const std::shared_ptr<ncclComm>& comm, const ncclUniqueId& id) {
  if (group().depth == 0) return false;
  group().starting.push_back({comm, id});
  return true;
}

}  // namespace simgpu::nccl

using simgpu::nccl::Call;
using simgpu::nccl::Kind;
using simgpu::nccl::submit;

ncclResult_t ncclAllReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Call{{Kind::all_reduce, type, op, 0, count}, send, recv}, stream);
}

ncclResult_t ncclBroadcast(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Call{{Kind::broadcast, type, ncclSum, root, count}, send, recv}, stream);
}

ncclResult_t ncclReduce(const void* send, void* recv, std::size_t count, ncclDataType_t type,
                        ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Call{{Kind::reduce, type, op, root, count}, send, recv}, stream);
}

ncclResult_t ncclAllGather(const void* send, void* recv, std::size_t send_count,
                           ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Call{{Kind::all_gather, type, ncclSum, 0, send_count}, send, recv}, stream);
}

ncclResult_t ncclReduceScatter(const void* send, void* recv, std::size_t recv_count,
                               ncclDataType_t type, ncclRedOp_t op, ncclComm_t comm,
                               cudaStream_t stream) {
  return submit(comm, Call{{Kind::reduce_scatter, type, op, 0, recv_count}, send, recv}, stream);
}

ncclResult_t ncclSend(const void* send, std::size_t count, ncclDataType_t type, int peer,
                      ncclComm_t comm, cudaStream_t stream) {
  return submit(comm, Call{{Kind::send, type, ncclSum, peer, count}, send, nullptr}, stream);
}

ncclResult_t ncclRecv(void* recv, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return submit(comm, Call{{Kind::receive, type, ncclSum, peer, count}, nullptr, recv}, stream);
}

ncclResult_t ncclGroupStart() {
  ++simgpu::nccl::group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  using namespace simgpu::nccl;
  Group& open = group();
  if (open.depth == 0) return failure(ncclInvalidUsage, "ncclGroupEnd: no group was started");
  if (--open.depth > 0) return ncclSuccess;
  const Group ended = std::exchange(open, {});
  if (ended.error != ncclSuccess) {
    for (const Starting& one : ended.starting) one.comm->state = ended.error;
    return ended.error;
  }
  const ncclResult_t result = initialise_all(ended.starting);
  const bool go_on = result == ncclSuccess || result == ncclInProgress;
  const ncclResult_t calls = go_on ? enqueue_all(ended.calls) : result;
  return result == ncclSuccess ? calls : result;
}
