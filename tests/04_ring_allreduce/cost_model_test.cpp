#include "04_ring_allreduce/cost_model.hpp"

#include <ostream>

#include "tests/support/catch.hpp"
#include "tests/support/variant.hpp"

namespace ddp {

// For Catch, which would print numbers.
std::ostream& operator<<(std::ostream& out, AllReduceKind kind) {
  if (kind != AllReduceKind::naive && kind != AllReduceKind::ring) return out << "neither";
  return out << (kind == AllReduceKind::ring ? "ring" : "naive");
}

namespace {

TEST_CASE("naive is chosen for few bytes, the ring for many") {
  // 2 ms and 50 MB/s, four ranks: 4 + 6 x = 12 + 1.5 x milliseconds for x = 16/9 ms of bytes, which
  // is 88,888.9 bytes.
  const Link slow = {2e-3, 50e6};
  CHECK(faster_all_reduce(4, 4, slow) == AllReduceKind::naive);
  CHECK(faster_all_reduce(4, 88888, slow) == AllReduceKind::naive);
  CHECK(faster_all_reduce(4, 88889, slow) == AllReduceKind::ring);
  CHECK(faster_all_reduce(4, 1 << 30, slow) == AllReduceKind::ring);
  for (const std::size_t bytes : variant_counts(200000)) {
    CAPTURE(bytes);
    CHECK(faster_all_reduce(4, bytes, slow) ==
          (9 * bytes <= 800000 ? AllReduceKind::naive : AllReduceKind::ring));
  }
  // 10 us and 10 GB/s, eight ranks: 20 + 14 x = 140 + 1.75 x microseconds at x = 9.79592, which is
  // 97,959.2 bytes.
  const Link fast = {10e-6, 10e9};
  CHECK(faster_all_reduce(8, 97959, fast) == AllReduceKind::naive);
  CHECK(faster_all_reduce(8, 97960, fast) == AllReduceKind::ring);
}

TEST_CASE("two ranks wait for as many messages either way, and the ring sends half") {
  CHECK(faster_all_reduce(2, 4, {2e-3, 50e6}) == AllReduceKind::ring);
  CHECK(faster_all_reduce(2, 0, {2e-3, 50e6}) == AllReduceKind::naive);
}

}  // namespace
}  // namespace ddp
