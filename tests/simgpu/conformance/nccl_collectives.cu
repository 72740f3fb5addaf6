// What NCCL's operations compute: every element of every rank, beside guards that nobody may touch.
#include "tests/simgpu/conformance/nccl_ranks.hpp"

namespace ddp::conformance {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr std::size_t many = 70001;  // more would take minutes and show nothing new
#else
constexpr std::size_t many = (std::size_t{1} << 20) + 5;
#endif
// None, one, fewer than ranks, odd, more than a pipeline's pieces, more than 2^20.
const std::vector<std::size_t> counts{0, 1, 3, 1001, 40007, many};
const std::vector<std::size_t> row_counts{0, 1, 3, 1001, 40007, many / 4};
const std::vector<std::size_t> few_counts{3, 1001, 70001};

template <class Test>
void for_each_size(const std::vector<std::size_t>& sizes, Test test) {
  for (int ranks = 1; ranks <= most_ranks(); ++ranks) {
    with_ranks(ranks, [&](const Rank& rank) {
      for (const std::size_t count : sizes) {
        for (const bool in_place : {false, true}) test(rank, count, in_place);
      }
    });
  }
}

int sum_at(int ranks, std::size_t i) {
  int sum = 0;
  for (int rank = 0; rank < ranks; ++rank) sum += value_at(rank, i);
  return sum;
}

/// A buffer with this rank's values, from place `begin` on.
template <class T>
void fill(Guarded<T>& buffer, int rank, std::size_t count, std::size_t begin = 0) {
  for (std::size_t i = 0; i < count; ++i) buffer[begin + i] = encoded<T>(value_at(rank, i));
}

template <class T>
void all_reduce(const Rank& rank, std::size_t count, bool in_place, ncclRedOp_t op,
                const std::function<int(std::size_t)>& expected) {
  Guarded<T> send(count), recv(count);
  fill(send, rank.rank, count);
  T* const from = send.upload(rank.stream);
  T* const to = in_place ? from : recv.upload(rank.stream);
  check_nccl(ncclAllReduce(from, to, count, TypeOf<T>::value, op, rank.comm, rank.stream));
  (in_place ? send : recv).check("all-reduce", rank.stream, [&](std::size_t i) {
    return encoded<T>(expected(i));
  });
  if (in_place) return;
  send.check("send buffer", rank.stream,
             [&](std::size_t i) { return encoded<T>(value_at(rank.rank, i)); });
}

template <class T>
void all_reduce_sums(const std::vector<std::size_t>& sizes) {
  for_each_size(sizes, [](const Rank& rank, std::size_t count, bool in_place) {
    all_reduce<T>(rank, count, in_place, ncclSum,
                  [&](std::size_t i) { return sum_at(rank.ranks, i); });
  });
}

TEST_CASE("all-reduce: sums of float, all counts, in place or not", "[nccl]") {
  all_reduce_sums<float>(counts);
}

TEST_CASE("all-reduce: sums of every type", "[nccl]") {
  all_reduce_sums<double>(few_counts);
  all_reduce_sums<HalfBits>(few_counts);
  all_reduce_sums<Bfloat16Bits>(few_counts);
  all_reduce_sums<std::int32_t>(few_counts);
  all_reduce_sums<std::int64_t>(few_counts);
  all_reduce_sums<std::uint8_t>(few_counts);
}

template <class T>
void all_reduce_of_other_operations() {
  for_each_size({1001}, [](const Rank& rank, std::size_t count, bool in_place) {
    all_reduce<T>(rank, count, in_place, ncclMax,
                  [&](std::size_t i) { return value_at(rank.ranks - 1, i); });
    all_reduce<T>(rank, count, in_place, ncclMin, [](std::size_t i) { return value_at(0, i); });
  });
}

TEST_CASE("all-reduce: largest and smallest values", "[nccl]") {
  all_reduce_of_other_operations<float>();
  all_reduce_of_other_operations<HalfBits>();
  all_reduce_of_other_operations<Bfloat16Bits>();
  all_reduce_of_other_operations<std::int64_t>();
  all_reduce_of_other_operations<std::uint8_t>();
}

TEST_CASE("all-reduce: the mean, where it is exact", "[nccl]") {
  for (const int ranks : {1, 2, 4}) {
    if (ranks > most_ranks()) continue;
    with_ranks(ranks, [&](const Rank& rank) {
      const std::size_t count = 4096;  // whole packs: NCCL 2.28 drops the rest where ranks = 1
      Guarded<float> values(count);
      for (std::size_t i = 0; i < count; ++i) {
        values[i] = static_cast<float>(rank.ranks * value_at(rank.rank, i));
      }
      float* const data = values.upload(rank.stream);
      check_nccl(ncclAllReduce(data, data, count, ncclFloat32, ncclAvg, rank.comm, rank.stream));
      values.check("mean", rank.stream,
                   [&](std::size_t i) { return static_cast<float>(sum_at(rank.ranks, i)); });
    });
  }
}

TEST_CASE("broadcast: every root", "[nccl]") {
  for_each_size(counts, [](const Rank& rank, std::size_t count, bool in_place) {
    for (int root = 0; root < rank.ranks; ++root) {
      if (count > 100000 && root != rank.ranks - 1) continue;
      Guarded<float> send(count), recv(count);
      fill(send, rank.rank, count);
      float* const to = recv.upload(rank.stream);
      float* const from = send.upload(rank.stream);
      // Only the root's send buffer matters.
      check_nccl(ncclBroadcast(rank.rank == root ? from : nullptr, in_place ? from : to, count,
                               ncclFloat32, root, rank.comm, rank.stream));
      (in_place ? send : recv).check("broadcast", rank.stream, [&](std::size_t i) {
        return static_cast<float>(value_at(root, i));
      });
    }
  });
}

TEST_CASE("reduce: every root, and nothing on the others", "[nccl]") {
  for_each_size(counts, [](const Rank& rank, std::size_t count, bool in_place) {
    for (int root = 0; root < rank.ranks; ++root) {
      if (count > 100000 && root != rank.ranks - 1) continue;
      Guarded<std::int32_t> send(count), recv(count);
      fill(send, rank.rank, count);
      for (std::size_t i = 0; i < count; ++i) recv[i] = 5;
      std::int32_t* const from = send.upload(rank.stream);
      std::int32_t* const to = recv.upload(rank.stream);
      check_nccl(ncclReduce(from, in_place ? from : to, count, ncclInt32, ncclSum, root, rank.comm,
                            rank.stream));
      rank.stream.synchronize();
      if (rank.rank == root) {
        (in_place ? send : recv).check("reduce", rank.stream, [&](std::size_t i) {
          return sum_at(rank.ranks, i);
        });
      } else if (!in_place) {
        recv.check("receive buffer of another rank", rank.stream, [](std::size_t) { return 5; });
      }
    }
  });
}

TEST_CASE("all-gather: the ranks' rows in order, in place or not", "[nccl]") {
  for_each_size(row_counts, [](const Rank& rank, std::size_t count, bool in_place) {
    const std::size_t own = static_cast<std::size_t>(rank.rank) * count;
    const std::size_t all = static_cast<std::size_t>(rank.ranks) * count;
    Guarded<float> send(count), recv(all);
    fill(send, rank.rank, count);
    for (std::size_t i = 0; i < all; ++i) recv[i] = -1;
    if (in_place) fill(recv, rank.rank, count, own);
    float* const from = send.upload(rank.stream);
    float* const to = recv.upload(rank.stream);
    check_nccl(
        ncclAllGather(in_place ? to + own : from, to, count, ncclFloat32, rank.comm, rank.stream));
    recv.check("all-gather", rank.stream, [&](std::size_t i) {
      return static_cast<float>(value_at(static_cast<int>(i / count), i % count));
    });
  });
}

TEST_CASE("reduce-scatter: each rank its row of the sum, in place or not", "[nccl]") {
  // Row r of a rank's values has, at i, its value times r + 1.
  const auto at = [](int rank, std::size_t count, std::size_t i) {
    return value_at(rank, i % count) * (static_cast<int>(i / count) + 1);
  };
  for_each_size(row_counts, [&](const Rank& rank, std::size_t count, bool in_place) {
    const std::size_t own = static_cast<std::size_t>(rank.rank) * count;
    const std::size_t all = static_cast<std::size_t>(rank.ranks) * count;
    Guarded<double> send(all), recv(count);
    for (std::size_t i = 0; i < all; ++i) send[i] = at(rank.rank, count, i);
    double* const from = send.upload(rank.stream);
    double* const to = recv.upload(rank.stream);
    check_nccl(ncclReduceScatter(from, in_place ? from + own : to, count, ncclFloat64, ncclSum,
                                 rank.comm, rank.stream));
    const auto sum = [&](std::size_t i) {
      return static_cast<double>(sum_at(rank.ranks, i) * (rank.rank + 1));
    };
    if (!in_place) return recv.check("reduce-scatter", rank.stream, sum);
    rank.stream.synchronize();
    std::vector<double> row(count);
    cuda::check(cudaMemcpy(row.data(), from + own, count * sizeof(double), cudaMemcpyDeviceToHost));
    for (std::size_t i = 0; i < count; ++i) {
      expect(row[i] == sum(i), "reduce-scatter in place, at " + std::to_string(i));
    }
  });
}

TEST_CASE("sends and receives of a group make a ring of any size", "[nccl]") {
  for_each_size(counts, [](const Rank& rank, std::size_t count, bool) {
    const int right = (rank.rank + 1) % rank.ranks;
    const int left = (rank.rank + rank.ranks - 1) % rank.ranks;  // itself, if there is one rank
    Guarded<float> send(count), recv(count);
    fill(send, rank.rank, count);
    float* const from = send.upload(rank.stream);
    float* const to = recv.upload(rank.stream);
    check_nccl(ncclGroupStart());
    check_nccl(ncclSend(from, count, ncclFloat32, right, rank.comm, rank.stream));
    check_nccl(ncclRecv(to, count, ncclFloat32, left, rank.comm, rank.stream));
    check_nccl(ncclGroupEnd());
    recv.check("receive", rank.stream,
               [&](std::size_t i) { return static_cast<float>(value_at(left, i)); });
  });
}

TEST_CASE("everybody sends to everybody, itself too, in one group; pairs keep their order",
          "[nccl]") {
  for_each_size({1, 30011}, [](const Rank& rank, std::size_t count, bool) {
    const auto n = static_cast<std::size_t>(rank.ranks);
    // Message k from a to b has value a + 10 * b + 100 * k everywhere.
    const auto value = [](int from, int to, int k) {
      return static_cast<float>(from + 10 * to + 100 * k);
    };
    Guarded<float> send(2 * n * count), recv(2 * n * count);
    for (std::size_t i = 0; i < 2 * n * count; ++i) {
      const auto message = static_cast<int>(i / count);
      send[i] = value(rank.rank, message / 2, message % 2);
    }
    float* const from = send.upload(rank.stream);
    float* const to = recv.upload(rank.stream);
    check_nccl(ncclGroupStart());
    for (std::size_t message = 0; message < 2 * n; ++message) {
      const auto peer = static_cast<int>(message / 2);
      check_nccl(
          ncclSend(from + message * count, count, ncclFloat32, peer, rank.comm, rank.stream));
      check_nccl(ncclRecv(to + message * count, count, ncclFloat32, peer, rank.comm, rank.stream));
    }
    check_nccl(ncclGroupEnd());
    recv.check("receive", rank.stream, [&](std::size_t i) {
      const auto message = static_cast<int>(i / count);
      return value(message / 2, rank.rank, message % 2);
    });
  });
}

TEST_CASE("operations follow the stream's earlier work and precede its later work", "[nccl]") {
  with_ranks(most_ranks(), [](const Rank& rank) {
    const cuda::DeviceBuffer<std::int32_t> value(1), copy(1);
    cuda::check(cudaMemsetAsync(value.data(), 0, sizeof(std::int32_t), rank.stream));
    int expected = 0;
    for (int i = 1; i <= 50; ++i) {  // 0, ranks * (0 + ...): no host waits between
      cuda::check(cudaMemsetAsync(copy.data(), i % 3 == 0 ? 1 : 0, 1, rank.stream));
      check_nccl(
          ncclAllReduce(value.data(), value.data(), 1, ncclInt32, ncclMax, rank.comm, rank.stream));
      cuda::check(cudaMemsetAsync(value.data(), i, 1, rank.stream));
      expected = i;
    }
    check_nccl(
        ncclAllReduce(value.data(), copy.data(), 1, ncclInt32, ncclSum, rank.comm, rank.stream));
    std::int32_t sum = 0;
    cuda::check(
        cudaMemcpyAsync(&sum, copy.data(), sizeof sum, cudaMemcpyDeviceToHost, rank.stream));
    rank.stream.synchronize();
    expect(sum == expected * rank.ranks, "50 * ranks, got " + std::to_string(sum));
  });
}

}  // namespace
}  // namespace ddp::conformance
