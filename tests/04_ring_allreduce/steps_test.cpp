// The ring step by step: what lies where after each step, how much is sent, and in which order the
// terms are added.

#include <cmath>
#include <vector>

#include "04_ring_allreduce/ring_allreduce.hpp"
#include "tests/04_ring_allreduce/collective.hpp"

namespace ddp {
namespace {

/// After each step, for each rank, which ranks' terms each chunk holds: rank r has bit 2^r. Made by
/// hand with pencil and paper from the table in ring_allreduce.hpp.
using Masks = std::vector<int>;                   // by chunk
using Picture = std::vector<std::vector<Masks>>;  // by step, then by rank

const Picture two_ranks = {
    {{1, 3}, {3, 2}},  // reduce-scatter
    {{3, 3}, {3, 3}},  // all-gather
};
const Picture three_ranks = {
    {{1, 1, 5}, {3, 2, 2}, {4, 6, 4}},
    {{1, 7, 5}, {3, 2, 7}, {7, 6, 4}},
    {{7, 7, 5}, {3, 7, 7}, {7, 6, 7}},
    {{7, 7, 7}, {7, 7, 7}, {7, 7, 7}},
};
const Picture four_ranks = {
    {{1, 1, 1, 9}, {3, 2, 2, 2}, {4, 6, 4, 4}, {8, 8, 12, 8}},
    {{1, 1, 13, 9}, {3, 2, 2, 11}, {7, 6, 4, 4}, {8, 14, 12, 8}},
    {{1, 15, 13, 9}, {3, 2, 15, 11}, {7, 6, 4, 15}, {15, 14, 12, 8}},
    {{15, 15, 13, 9}, {3, 15, 15, 11}, {7, 6, 15, 15}, {15, 14, 12, 15}},
    {{15, 15, 13, 15}, {15, 15, 15, 11}, {7, 15, 15, 15}, {15, 14, 15, 15}},
    {{15, 15, 15, 15}, {15, 15, 15, 15}, {15, 15, 15, 15}, {15, 15, 15, 15}},
};

TEST_CASE("the buffer after each step of the ring") {
  const mpi::Communicator communicator;
  const int rank = communicator.rank(), ranks = communicator.size();
  const Picture none, *const pictures[] = {&none, &two_ranks, &three_ranks, &four_ranks};
  const Picture& picture = *pictures[ranks - 1];
  // Two elements a chunk, and one more in the first.
  const auto count = static_cast<std::size_t>(2 * ranks + 1);
  // Element i of rank r is 2^r * (i + 1) * 16^0 ...: a multiple that tells the element.
  const auto multiple = [](std::size_t i) { return 1000 * (i + 1) + 1; };
  const auto values_of = [&](const Masks& masks) {
    return made_by<float>(count, [&](std::size_t i) {
      const std::size_t chunk = i < 3 ? 0 : (i - 1) / 2;
      return static_cast<std::size_t>(masks[chunk]) * multiple(i);
    });
  };
  const Masks at_first(static_cast<std::size_t>(ranks), 1 << rank);

  for (const Way& way : ways(communicator)) {
    if (way.kind != AllReduceKind::ring) continue;
    RingAllReduce<float> ring(communicator, way.device_pointers);
    const cuda::Stream stream;
    const Guarded<float> buffer(values_of(at_first));
    for (int step = 0; step < 2 * (ranks - 1); ++step) {
      INFO(way.text() << ", step " << step << " of both phases together");
      if (step < ranks - 1) {
        ring.reduce_scatter_step(step, buffer.span(), buffer.span(), stream);
      } else {
        ring.all_gather_step(step - (ranks - 1), buffer.span(), stream);
      }
      stream.synchronize();
      const auto& row = picture[static_cast<std::size_t>(step)];
      CHECK(buffer.values() == values_of(row[static_cast<std::size_t>(rank)]));
      CHECK(buffer.guards_untouched());
    }
  }
}

TEST_CASE("traffic is what the formulas say") {
  const mpi::Communicator communicator;
  const std::int64_t ranks = communicator.size();
  const std::size_t count = 12000;  // of 4 bytes; 2, 3 and 4 divide it
  for (const Way& way : ways(communicator)) {
    if (way.kind == AllReduceKind::naive) continue;  // a matter of stage 03
    INFO(way.text());
    const mpi::Communicator own;
    const auto all_reduce = make_all_reduce<float>(way.kind, own, way.device_pointers);
    sum_of(*all_reduce, std::vector<float>(count, 1.0F), true);
    const Traffic& traffic = own.traffic();
    const bool tree = way.kind == AllReduceKind::tree, ring = way.kind == AllReduceKind::ring;
    const std::int64_t rounds = ranks == 4 ? 2 : ranks - 1;  // log2 of 1, 2 and 4
    const std::int64_t bytes = way.kind == AllReduceKind::mpi ? 0
                               : tree                         ? rounds * 48000
                                                              : 2 * (ranks - 1) * 48000 / ranks;
    CHECK(traffic.bytes_sent == bytes);
    CHECK(traffic.bytes_received == bytes);
    if (way.kind == AllReduceKind::ring_segmented) continue;
    const std::int64_t messages = ring ? 2 * (ranks - 1) : tree ? rounds : 0;
    CHECK(traffic.messages_sent == messages);
    CHECK(traffic.messages_received == messages);
  }
}

/// uneven(rank, i) of all ranks, added as `order` says.
template <class Order>
std::vector<float> reference(std::size_t count, const Order& order) {
  return made_by<float>(
      count, [&](std::size_t i) { return order(i, [i](int rank) { return uneven(rank, i); }); });
}

std::vector<float> uneven_values(int rank, std::size_t count) {
  return made_by<float>(count, [&](std::size_t i) { return uneven(rank, i); });
}

TEST_CASE("the tree adds as a balanced binary tree over the ranks") {
  const mpi::Communicator communicator;
  const int ranks = communicator.size();
  const std::size_t count = 20011;
  const auto expected = reference(count, [ranks](std::size_t, const auto& term) {
    if (ranks == 1) return term(0);
    if (ranks == 2) return term(0) + term(1);
    const float left = term(0) + term(1), right = term(2) + term(3);
    return left + right;
  });
  for (const Way& way : ways(communicator)) {
    if (way.kind != AllReduceKind::tree) continue;
    INFO(way.text());
    const auto tree = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
    for (const bool in_place : {true, false}) {
      const auto found = sum_of(*tree, uneven_values(communicator.rank(), count), in_place);
      CHECK(difference(found, expected) == "");
    }
  }
}

TEST_CASE("both rings add a chunk in the order of the circle, beginning at its own rank") {
  const mpi::Communicator communicator;
  const int ranks = communicator.size();
  for (const std::size_t count : {1, 7, 20011, 1200005}) {
    // Where the chunks end: the first `count mod N` chunks have one element more.
    const auto n = static_cast<std::size_t>(ranks);
    const std::size_t larger = count % n, least = count / n;
    const auto chunk_at = [&](std::size_t i) {
      return i < larger * (least + 1) ? i / (least + 1)
                                      : larger + (i - larger * (least + 1)) / least;
    };
    const auto expected = reference(count, [&](std::size_t i, const auto& term) {
      const auto first = static_cast<int>(chunk_at(i));
      float total = term(first);
      for (int next = 1; next < ranks; ++next) total += term((first + next) % ranks);
      return total;
    });
    for (const Way& way : ways(communicator)) {
      if (way.kind != AllReduceKind::ring && way.kind != AllReduceKind::ring_segmented) continue;
      INFO(way.text() << ", " << count << " elements");
      const auto ring = make_all_reduce<float>(way.kind, communicator, way.device_pointers);
      for (const bool in_place : {true, false}) {
        const auto found = sum_of(*ring, uneven_values(communicator.rank(), count), in_place);
        CHECK(difference(found, expected) == "");
      }
    }
  }
}

TEST_CASE("the test data tells orders of addition apart") {
  std::size_t different = 0;
  for (std::size_t i = 0; i < 10000; ++i) {
    const float a = uneven(0, i), b = uneven(1, i), c = uneven(2, i);
    if ((a + b) + c != a + (b + c)) ++different;
  }
  CHECK(different > 1000);
}

}  // namespace
}  // namespace ddp
