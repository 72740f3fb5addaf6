// Tests that fail on purpose, each in its own way; mpi_main_test.py runs them one by one.

#include <array>
#include <stdexcept>
#include <thread>
#include <vector>

#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

bool on_rank(int rank) { return world().rank() == rank; }

TEST_CASE("nothing is wrong") {
  world().barrier();
  CHECK(world().size() == 3);
}

TEST_CASE("a check fails on rank 1") {
  CHECK_FALSE(on_rank(1));
  world().barrier();
}

TEST_CASE("a requirement fails on rank 2, the others wait") {
  REQUIRE_FALSE(on_rank(2));
  world().barrier();
}

TEST_CASE("rank 1 throws, the others wait") {
  if (on_rank(1)) throw std::runtime_error("thrown on purpose");
  world().barrier();
}

TEST_CASE("rank 1 throws, nobody waits") {
  if (on_rank(1)) throw std::runtime_error("thrown on purpose");
}

TEST_CASE("a message is left unread") {
  if (on_rank(0)) world().send<float>(std::vector<float>(10), 2);
}

TEST_CASE("a cycle") {
  std::array<float, 1> value{};
  world().receive<float>(value, (world().rank() + 1) % world().size());
}

TEST_CASE("rank 1 does not come") {
  world().set_step(3);
  if (on_rank(1)) std::this_thread::sleep_for(std::chrono::minutes(5));
  world().barrier();
}

TEST_CASE("nothing is wrong after all") { world().barrier(); }

}  // namespace
}  // namespace ddp
