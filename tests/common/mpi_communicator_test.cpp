#include <numeric>
#include <string>
#include <vector>

#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

// Differs by rank and place, so that a message that went astray shows.
std::vector<float> values_of(int rank, std::size_t count) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), static_cast<float>(1000 * rank));
  return values;
}

TEST_CASE("Each rank knows its number and how many there are") {
  int rank = -1;
  int size = -1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK(world().rank() == rank);
  CHECK(world().size() == size);
  CHECK(world().handle() != MPI_COMM_WORLD);
}

TEST_CASE("all_gather gives every rank's text in order, also empty ones") {
  const int rank = world().rank();
  const std::string text(static_cast<std::size_t>(rank), static_cast<char>('a' + rank));
  const std::vector<std::string> texts = world().all_gather(text);
  REQUIRE(texts.size() == static_cast<std::size_t>(world().size()));
  for (std::size_t other = 0; other < texts.size(); ++other) {
    CHECK(texts[other] == std::string(other, static_cast<char>('a' + other)));
  }
}

TEST_CASE("A message goes round the ring; both ways of sending are counted alike") {
  const mpi::Communicator& ranks = world();
  const int right = (ranks.rank() + 1) % ranks.size();
  const int left = (ranks.rank() + ranks.size() - 1) % ranks.size();
  for (const std::size_t count : {std::size_t{0}, std::size_t{1}, std::size_t{100'000}}) {
    const Traffic before = ranks.traffic();
    const std::vector<float> sent = values_of(ranks.rank(), count);
    std::vector<float> received(count);
    mpi::Request sending = ranks.start_send<float>(sent, right);
    ranks.receive<float>(received, left);
    sending.wait();
    CHECK(received == values_of(left, count));
    mpi::Request receiving = ranks.start_receive<float>(received, right);
    std::vector<float> more = values_of(ranks.rank() + 50, count);
    mpi::Request sending_back = ranks.start_send<float>(more, left);
    receiving.wait();
    sending_back.wait();
    CHECK(received == values_of(right + 50, count));
    const Traffic after = ranks.traffic();
    CHECK(after.messages_sent - before.messages_sent == 2);
    CHECK(after.messages_received - before.messages_received == 2);
    CHECK(after.bytes_sent - before.bytes_sent == static_cast<std::int64_t>(2 * 4 * count));
    CHECK(after.bytes_received - before.bytes_received == static_cast<std::int64_t>(2 * 4 * count));
  }
}

TEST_CASE("A message of another length is an error with both lengths") {
  if (world().size() == 1) return;
  if (world().rank() == 1) {
    world().send<double>(std::vector<double>(3), 0);
    world().send<double>(std::vector<double>(3), 0);
  } else if (world().rank() == 0) {
    std::vector<double> values(5);
    const std::string expected = "rank 1 sent 3 elements, rank 0 expected 5";
    CHECK(error_of<PeerError>([&] { world().receive<double>(values, 1); }) == expected);
    mpi::Request request = world().start_receive<double>(values, 1);
    CHECK(error_of<PeerError>([&] { request.wait(); }) == expected);
  }
}

TEST_CASE("broadcast gives all the root's values, whoever the root is") {
  for (int root = 0; root < world().size(); ++root) {
    std::vector<double> values(7, world().rank());
    world().broadcast(std::span(values), root);
    CHECK(values == std::vector<double>(7, root));
  }
}

}  // namespace
}  // namespace ddp
