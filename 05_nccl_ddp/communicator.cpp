#include "05_nccl_ddp/communicator.hpp"

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <sstream>
#include <thread>

#include "05_nccl_ddp/check.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/run/agree.hpp"

namespace ddp::nccl {
namespace {

// Made by rank 0, the same on all ranks afterwards.
ncclUniqueId shared_unique_id(const mpi::Communicator& ranks) {
  ncclUniqueId id{};
  on_all_ranks(ranks, [&] {
    if (ranks.rank() == 0) check(ncclGetUniqueId(&id));
  });
  ranks.broadcast(std::span(reinterpret_cast<std::byte*>(id.internal), sizeof id.internal), 0);
  return id;
}

}  // namespace

Communicator::Communicator(const mpi::Communicator& ranks, std::chrono::duration<double> deadline)
    : deadline_(deadline) {
  const ncclUniqueId id = shared_unique_id(ranks);
  on_all_ranks(ranks, [&] {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    finish(ncclCommInitRankConfig(&comm_, ranks.size(), id, ranks.rank(), &config));
    const cuda::Stream stream;
    const cuda::DeviceBuffer<float> one(1);
    cuda::clear_async(one.data(), 1, stream);
    finish(ncclAllReduce(one.data(), one.data(), 1, ncclFloat, ncclSum, comm_, stream));
    stream.synchronize();
  });
}

Communicator::~Communicator() {
  try {
    finish(ncclCommFinalize(comm_));
    ncclCommDestroy(comm_);
  } catch (const PeerError&) {  // then a peer is gone, and nothing more can be done in order
    ncclCommAbort(comm_);
  }
}

void Communicator::finish(ncclResult_t result, std::source_location where) const {
  const auto begin = std::chrono::steady_clock::now();
  while (result == ncclInProgress) {
    const auto waited = std::chrono::steady_clock::now() - begin;
    if (waited > deadline_) {
      std::ostringstream text;
      text << "NCCL: a call has not come to an end in " << deadline_.count()
           << " s: not all ranks have made it (" << where.file_name() << ":" << where.line() << ")";
      throw PeerError(text.str());
    }
    // Most calls are taken within microseconds, which is less than the shortest sleep.
    if (waited < std::chrono::milliseconds(1)) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(std::chrono::microseconds(100));
    }
    check(ncclCommGetAsyncError(comm_, &result), comm_, where);
  }
  check(result, comm_, where);
}

}  // namespace ddp::nccl
