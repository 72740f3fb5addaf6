// Run with SIMGPU_LINK=1,1000: 1 GB/s and 1 ms at every rank. Times are those of the modelled
// clock.

#include <chrono>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

constexpr std::size_t ten_megabytes = 2'500'000;  // floats: 10 ms of bandwidth
constexpr double latency = 1e-3;
constexpr double transfer = 10e-3;
constexpr double rounding = 1e-12;

bool near(double a, double b) { return std::abs(a - b) < rounding; }

TEST_CASE("A message of 10 MB takes 11 ms on a link of 1 GB/s and 1 ms, also to sleep") {
  if (world().size() < 2 || world().rank() > 1) return;
  const mpi::Communicator& ranks = world();
  std::vector<float> values(ten_megabytes);
  const double modelled_before = ranks.modelled_seconds();
  const auto before = std::chrono::steady_clock::now();
  if (ranks.rank() == 0) {
    std::iota(values.begin(), values.end(), 0.0f);
    ranks.send<float>(values, 1);
    CHECK(near(ranks.modelled_seconds() - modelled_before, transfer));  // it has left
    ranks.receive<float>(std::span(values).first(1), 1);
  } else {
    ranks.receive<float>(values, 0);
    CHECK(near(ranks.modelled_seconds() - modelled_before, latency + transfer));
    std::vector<float> expected(ten_megabytes);
    std::iota(expected.begin(), expected.end(), 0.0f);
    CHECK(values == expected);
    ranks.send<float>(std::span<const float>(values).first(1), 0);
  }
  if (ranks.rank() == 0) {  // there and back
    const std::chrono::duration<double> real = std::chrono::steady_clock::now() - before;
    CHECK(real.count() >= 2 * latency + transfer);
  }
}

TEST_CASE("The root receives from N - 1 ranks one after the other; both ways at once cost one") {
  const mpi::Communicator ranks;  // its clock is at 0
  std::vector<float> values(ten_megabytes);
  if (ranks.rank() == 0) {
    for (int source = 1; source < ranks.size(); ++source) ranks.receive<float>(values, source);
    const int sources = ranks.size() - 1;
    CHECK(near(ranks.modelled_seconds(), sources == 0 ? 0 : latency + sources * transfer));
  } else {
    ranks.send<float>(values, 0);
    CHECK(near(ranks.modelled_seconds(), transfer));
  }
  ranks.barrier();  // free
  const mpi::Communicator ring;
  const int right = (ring.rank() + 1) % ring.size();
  const int left = (ring.rank() + ring.size() - 1) % ring.size();
  std::vector<float> received(ten_megabytes);
  mpi::Request sending = ring.start_send<float>(values, right);
  ring.receive<float>(received, left);
  sending.wait();
  CHECK(near(ring.modelled_seconds(), latency + transfer));
  CHECK(ring.traffic().messages_sent == 1);  // what goes ahead of a message is not counted
  CHECK(ring.traffic().bytes_received == std::int64_t{10'000'000});
}

}  // namespace
}  // namespace ddp
