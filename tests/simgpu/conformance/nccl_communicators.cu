// Communicators of NCCL: how they are made, what they refuse, groups, failure and abort.
#include <chrono>

#include "tests/simgpu/conformance/nccl_ranks.hpp"

namespace ddp::conformance {
namespace {

/// Polls a communicator with blocking = 0 until it has finished its last call.
ncclResult_t finished(ncclComm_t comm) {
  ncclResult_t result = ncclInProgress;
  while (result == ncclInProgress) {
    check_nccl(ncclCommGetAsyncError(comm, &result));
    std::this_thread::yield();
  }
  return result;
}

ncclComm_t begin_without_blocking(int ranks, const ncclUniqueId& id, int rank) {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  ncclComm_t comm = nullptr;
  const ncclResult_t result = ncclCommInitRankConfig(&comm, ranks, id, rank, &config);
  expect(result == ncclInProgress || result == ncclSuccess, "a beginning, ncclInProgress");
  return comm;
}

/// A communicator of this thread alone.
class Alone {
 public:
  Alone() {
    ncclUniqueId id{};
    check_nccl(ncclGetUniqueId(&id));
    check_nccl(ncclCommInitRank(&comm_, 1, id, 0));
  }
  Alone(const Alone&) = delete;
  Alone& operator=(const Alone&) = delete;
  ~Alone() { ncclCommDestroy(comm_); }
  operator ncclComm_t() const { return comm_; }

 private:
  ncclComm_t comm_ = nullptr;
};

void skip_few_devices(int needed) { WARN("not tried: it takes " << needed << " devices"); }

TEST_CASE("the version and the texts of results", "[nccl]") {
  int version = 0;
  CHECK(ncclGetVersion(&version) == ncclSuccess);
  CHECK(version >= NCCL_VERSION_CODE);  // a library may be newer than the header
  CHECK(ncclGetVersion(nullptr) == ncclInvalidArgument);
  for (int result = ncclSuccess; result < ncclNumResults; ++result) {
    CHECK(std::string(ncclGetErrorString(static_cast<ncclResult_t>(result))) != "");
  }
}

TEST_CASE("a communicator knows its rank, ranks and device", "[nccl]") {
  for (int ranks = 1; ranks <= most_ranks(); ++ranks) {
    with_ranks(ranks, [&](const Rank& rank) {
      int count = -1, own = -1, device = -1;
      check_nccl(ncclCommCount(rank.comm, &count));
      check_nccl(ncclCommUserRank(rank.comm, &own));
      check_nccl(ncclCommCuDevice(rank.comm, &device));
      expect(count == ranks && own == rank.rank && device == rank.rank, "its own numbers");
    });
  }
}

TEST_CASE("two communicators of the same ranks do not meet", "[nccl]") {
  ncclUniqueId ids[2];
  for (ncclUniqueId& id : ids) check_nccl(ncclGetUniqueId(&id));
  in_threads(most_ranks(), [&](int rank) {
    ncclComm_t comms[2] = {};
    for (int i = 0; i < 2; ++i) {
      check_nccl(ncclCommInitRank(&comms[i], most_ranks(), ids[i], rank));
    }
    const cuda::Stream stream;
    Guarded<std::int32_t> first(9), second(9);
    for (std::size_t i = 0; i < 9; ++i) first[i] = 1, second[i] = 10;
    std::int32_t* const a = first.upload(stream);
    std::int32_t* const b = second.upload(stream);
    check_nccl(ncclAllReduce(a, a, 9, ncclInt32, ncclSum, comms[0], stream));
    check_nccl(ncclAllReduce(b, b, 9, ncclInt32, ncclSum, comms[1], stream));
    first.check("first", stream, [](std::size_t) { return most_ranks(); });
    second.check("second", stream, [](std::size_t) { return 10 * most_ranks(); });
    for (ncclComm_t comm : comms) check_nccl(ncclCommDestroy(comm));
  });
}

TEST_CASE("initialising refuses what makes no sense", "[nccl]") {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  ncclComm_t comm = nullptr;
  CHECK(ncclGetUniqueId(nullptr) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(nullptr, 1, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 0, id, 0) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 1, id, 1) == ncclInvalidArgument);
  CHECK(ncclCommInitRank(&comm, 1, id, -1) == ncclInvalidArgument);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.magic = 1;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  CHECK(ncclCommInitRankConfig(&comm, 1, id, 0, &config) == ncclInvalidArgument);
  CHECK(std::string(ncclGetLastError(nullptr)) != "");
}

TEST_CASE("two ranks on one device are refused", "[nccl]") {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  in_threads(2, [&](int rank) {
    cuda::check(cudaSetDevice(0));
    ncclComm_t comm = nullptr;
    const ncclResult_t result = ncclCommInitRank(&comm, 2, id, rank);
    expect(result == ncclInvalidUsage, "ncclInvalidUsage, got " + std::to_string(result));
  });
}

TEST_CASE("operations refuse wrong arguments at once", "[nccl]") {
  const Alone comm;
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> data(4);
  float* const p = data.data();
  const auto bad_type = static_cast<ncclDataType_t>(ncclNumTypes);
  const auto bad_op = static_cast<ncclRedOp_t>(ncclNumOps);
  CHECK(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, nullptr, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(p, p, 4, bad_type, ncclSum, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllReduce(p, p, 4, ncclFloat32, bad_op, comm, stream) == ncclInvalidArgument);
  CHECK(ncclBroadcast(p, p, 4, ncclFloat32, 1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclBroadcast(p, p, 4, ncclFloat32, -1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclReduce(p, p, 4, ncclFloat32, ncclSum, 1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclSend(p, 4, ncclFloat32, 1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclRecv(p, 4, ncclFloat32, -1, comm, stream) == ncclInvalidArgument);
  CHECK(ncclAllGather(p, p, 4, bad_type, comm, stream) == ncclInvalidArgument);
  CHECK(ncclReduceScatter(p, p, 4, ncclFloat32, bad_op, comm, stream) == ncclInvalidArgument);
  CHECK(ncclCommCount(nullptr, nullptr) == ncclInvalidArgument);
  // The communicator is as good as before.
  CHECK(ncclAllReduce(p, p, 4, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
}

TEST_CASE("a wrong call in a group is told at once and at the end, and nothing runs", "[nccl]") {
  const Alone comm;
  const cuda::Stream stream;
  Guarded<float> values(4), sums(4);
  for (std::size_t i = 0; i < 4; ++i) values[i] = 3, sums[i] = 8;
  float* const from = values.upload(stream);
  float* const to = sums.upload(stream);
  CHECK(ncclGroupStart() == ncclSuccess);
  CHECK(ncclAllReduce(from, to, 4, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
  CHECK(ncclBroadcast(from, to, 4, ncclFloat32, 7, comm, stream) == ncclInvalidArgument);
  CHECK(ncclGroupEnd() == ncclInvalidArgument);
  sums.check("nothing ran", stream, [](std::size_t) { return 8.0f; });
  CHECK(ncclGroupStart() == ncclSuccess);  // forgotten: the next group is a new one
  CHECK(ncclAllReduce(from, to, 4, ncclFloat32, ncclSum, comm, stream) == ncclSuccess);
  CHECK(ncclGroupEnd() == ncclSuccess);
  sums.check("it ran", stream, [](std::size_t) { return 3.0f; });
  CHECK(ncclGroupEnd() == ncclInvalidUsage);
}

TEST_CASE("one thread may drive all devices in groups", "[nccl]") {
  const int ranks = most_ranks();
  const auto n = static_cast<std::size_t>(ranks);
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  std::vector<ncclComm_t> comms(n);
  std::vector<cuda::Stream> streams;
  std::vector<Guarded<std::int32_t>> values;
  check_nccl(ncclGroupStart());
  for (std::size_t i = 0; i < n; ++i) {
    cuda::check(cudaSetDevice(static_cast<int>(i)));
    check_nccl(ncclCommInitRank(&comms[i], ranks, id, static_cast<int>(i)));
  }
  check_nccl(ncclGroupEnd());
  for (std::size_t i = 0; i < n; ++i) {
    cuda::check(cudaSetDevice(static_cast<int>(i)));
    streams.emplace_back();
    values.emplace_back(100000);
    for (std::size_t k = 0; k < 100000; ++k) values[i][k] = value_at(static_cast<int>(i), k);
  }
  std::vector<std::int32_t*> data;
  for (std::size_t i = 0; i < n; ++i) {
    cuda::check(cudaSetDevice(static_cast<int>(i)));
    data.push_back(values[i].upload(streams[i]));
  }
  check_nccl(ncclGroupStart());
  check_nccl(ncclGroupStart());
  for (std::size_t i = 0; i < n; ++i) {
    check_nccl(ncclAllReduce(data[i], data[i], 100000, ncclInt32, ncclSum, comms[i], streams[i]));
  }
  check_nccl(ncclGroupEnd());  // not the outermost
  check_nccl(ncclGroupEnd());
  for (std::size_t i = 0; i < n; ++i) {
    cuda::check(cudaSetDevice(static_cast<int>(i)));
    values[i].check("all-reduce", streams[i], [ranks](std::size_t k) {
      int sum = 0;
      for (int rank = 0; rank < ranks; ++rank) sum += value_at(rank, k);
      return sum;
    });
    check_nccl(ncclCommDestroy(comms[i]));
  }
  cuda::check(cudaSetDevice(0));
}

TEST_CASE("a group over two streams of a communicator joins them", "[nccl]") {
  with_ranks(most_ranks(), [](const Rank& rank) {
    const cuda::Stream other;
    Guarded<float> a(5000), b(5000);
    for (std::size_t i = 0; i < 5000; ++i) a[i] = 1, b[i] = 2;
    float* const first = a.upload(rank.stream);
    float* const second = b.upload(other);
    check_nccl(ncclGroupStart());
    check_nccl(ncclAllReduce(first, first, 5000, ncclFloat32, ncclSum, rank.comm, rank.stream));
    check_nccl(ncclAllReduce(second, second, 5000, ncclFloat32, ncclSum, rank.comm, other));
    check_nccl(ncclGroupEnd());
    a.check("first", rank.stream, [&](std::size_t) { return static_cast<float>(rank.ranks); });
    b.check("second", other, [&](std::size_t) { return static_cast<float>(2 * rank.ranks); });
  });
}

TEST_CASE("without blocking, calls are polled", "[nccl]") {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  in_threads(most_ranks(), [&](int rank) {
    const ncclComm_t comm = begin_without_blocking(most_ranks(), id, rank);
    check_nccl(finished(comm));
    const cuda::Stream stream;
    Guarded<float> values(1001);
    for (std::size_t i = 0; i < 1001; ++i) values[i] = 1;
    float* const data = values.upload(stream);
    const auto result = ncclAllReduce(data, data, 1001, ncclFloat32, ncclSum, comm, stream);
    expect(result == ncclSuccess || result == ncclInProgress, "an operation under way");
    check_nccl(finished(comm));
    values.check("sum", stream, [](std::size_t) { return static_cast<float>(most_ranks()); });
    const auto end = ncclCommFinalize(comm);
    expect(end == ncclSuccess || end == ncclInProgress, "an end under way");
    check_nccl(finished(comm));
    check_nccl(ncclCommDestroy(comm));
  });
}

TEST_CASE("an initialisation that waits for a rank which does not come can be aborted", "[nccl]") {
  if (most_ranks() < 2) return skip_few_devices(2);
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  const ncclComm_t comm = begin_without_blocking(2, id, 0);
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  ncclResult_t state = ncclSuccess;
  CHECK(ncclCommGetAsyncError(comm, &state) == ncclSuccess);
  CHECK(state == ncclInProgress);
  CHECK(ncclCommAbort(comm) == ncclSuccess);
}

TEST_CASE("an abort ends an operation that a rank does not join, and the stream goes on",
          "[nccl]") {
  if (most_ranks() < 2) return skip_few_devices(2);
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  in_threads(2, [&](int rank) {
    ncclComm_t comm = nullptr;
    check_nccl(ncclCommInitRank(&comm, 2, id, rank));
    if (rank == 1) return check_nccl(ncclCommAbort(comm));  // it makes no call
    const cuda::Stream stream;
    const cuda::DeviceBuffer<float> values(1000);
    cuda::check(cudaMemsetAsync(values.data(), 0, 4000, stream));
    check_nccl(
        ncclAllReduce(values.data(), values.data(), 1000, ncclFloat32, ncclSum, comm, stream));
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
    expect(cudaStreamQuery(stream) == cudaErrorNotReady, "an operation that waits");
    ncclResult_t state = ncclInternalError;
    check_nccl(ncclCommGetAsyncError(comm, &state));
    expect(state == ncclSuccess, "silence about it");
    std::thread([comm] { check_nccl(ncclCommAbort(comm)); }).join();
    cuda::check(cudaMemsetAsync(values.data(), 0, 4000, stream));
    stream.synchronize();
  });
}

}  // namespace
}  // namespace ddp::conformance
