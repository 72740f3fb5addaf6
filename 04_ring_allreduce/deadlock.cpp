// Shows the deadlock of a ring in which everybody sends before anybody receives.
//
//     mpirun --bind-to none -n 3 build/sim/bin/ring_deadlock 1010         passes
//     mpirun --bind-to none -n 3 build/sim/bin/ring_deadlock 1012         locks
//     mpirun --bind-to none -n 3 build/sim/bin/ring_deadlock 1012 --fixed passes (exercise 4.4)
//
// The exchange runs in a thread of its own. If it is not done after two seconds, the main thread
// says who waits for whom and makes the missing receive in its place: that frees the left
// neighbour, so all ranks go on and end as they should, with nothing left behind. Where even that
// does not help, the program ends after ten seconds by an alarm.

#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <charconv>
#include <chrono>
#include <cstring>
#include <future>
#include <iostream>
#include <string>
#include <vector>

#include "04_ring_allreduce/shift.hpp"
#include "common/errors.hpp"
#include "common/mpi/check.hpp"

namespace ddp {
namespace {

constexpr auto patience = std::chrono::seconds(2);
constexpr unsigned last_resort_seconds = 10;
constexpr int most_floats = 100'000'000;

struct Arguments {
  int floats = 0;
  bool fixed = false;
};

Arguments read_arguments(int argc, char** argv) {
  Arguments arguments;
  const char* const text = argc > 1 ? argv[1] : "";
  const auto [end, error] = std::from_chars(text, text + std::strlen(text), arguments.floats);
  arguments.fixed = argc == 3 && std::string(argv[2]) == "--fixed";
  if (error != std::errc() || *end != '\0' || arguments.floats < 1 ||
      arguments.floats > most_floats || argc > 3 || (argc == 3 && !arguments.fixed)) {
    throw OptionError("usage: ring_deadlock FLOATS [--fixed], with 1 to " +
                      std::to_string(most_floats) + " floats in a message");
  }
  return arguments;
}

/// "0 waits for 1 waits for 2 waits for 0", beginning at the first rank that waits.
std::string circle(const std::vector<int>& waits_for) {
  std::size_t rank = 0;
  while (waits_for[rank] < 0) ++rank;
  std::string text = std::to_string(rank);
  for (std::size_t hop = 0; hop < waits_for.size() && waits_for[rank] >= 0; ++hop) {
    rank = static_cast<std::size_t>(waits_for[rank]);
    text += " waits for " + std::to_string(rank);
  }
  return text;
}

/// The trap of shift.hpp, which can be freed: whoever claims the receive first makes it.
void exchange(const Arguments& arguments, std::span<const float> outgoing,
              std::span<float> incoming, MPI_Comm ring, std::atomic<bool>& claimed) {
  if (arguments.fixed) {
    shift(outgoing, incoming, ring);
    return;
  }
  int rank = 0, ranks = 0;
  mpi::check(MPI_Comm_rank(ring, &rank));
  mpi::check(MPI_Comm_size(ring, &ranks));
  send_to((rank + 1) % ranks, outgoing, ring);
  if (!claimed.exchange(true)) receive_from((rank + ranks - 1) % ranks, incoming, ring);
}

int run(const Arguments& arguments, MPI_Comm ring, MPI_Comm talk) {
  int rank = 0, ranks = 0;
  mpi::check(MPI_Comm_rank(ring, &rank));
  mpi::check(MPI_Comm_size(ring, &ranks));
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  const auto count = static_cast<std::size_t>(arguments.floats);
  const std::vector<float> outgoing(count, static_cast<float>(rank));
  std::vector<float> incoming(count, -1);
  if (rank == 0) {
    std::cout << ranks << " ranks, " << count << " floats to the right (" << 4 * count
              << " bytes): "
              << (arguments.fixed ? "the order of exercise 4.4" : "everybody sends, then receives")
              << std::endl;
  }

  std::atomic<bool> claimed = false;
  auto done = std::async(std::launch::async,
                         [&] { exchange(arguments, outgoing, incoming, ring, claimed); });
  const bool stuck = done.wait_for(patience) != std::future_status::ready;
  // All claims come before the first rescue: the exchange of `waits_for` lies between them.
  const bool rescues = stuck && !arguments.fixed && !claimed.exchange(true);
  const int mine = stuck ? (rescues ? right : left) : -1;
  std::vector<int> waits_for(static_cast<std::size_t>(ranks));
  mpi::check(MPI_Allgather(&mine, 1, MPI_INT, waits_for.data(), 1, MPI_INT, talk));
  const bool locked = std::any_of(waits_for.begin(), waits_for.end(), [](int r) { return r >= 0; });
  if (locked && !arguments.fixed && rank == 0) {
    std::cout << "after " << patience.count() << " s: " << circle(waits_for) << std::endl;
  }
  if (locked && arguments.fixed) {
    // No exception: on its way out it would wait for the thread that is stuck.
    if (rank == 0) std::cerr << "error: the ring is still locked: exercise 4.4 is not solved\n";
    mpi::check(MPI_Barrier(talk));
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(ExitCode::peer));
  }
  if (rescues) receive_from(left, incoming, ring);
  done.get();

  const int wrong = std::any_of(incoming.begin(), incoming.end(),
                                [left](float value) { return value != static_cast<float>(left); });
  int wrong_ranks = 0;
  mpi::check(MPI_Allreduce(&wrong, &wrong_ranks, 1, MPI_INT, MPI_SUM, talk));
  if (wrong_ranks > 0) throw PeerError(std::to_string(wrong_ranks) + " ranks got wrong values");
  if (rank == 0) {
    std::cout << (locked ? "deadlock shown as intended"
                  : arguments.fixed
                      ? "passed: somebody always receives"
                      : "passed: MPI_Send kept a copy of so small a message and returned")
              << std::endl;
  }
  return 0;
}

int run_all(int argc, char** argv) {
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  MPI_Comm ring = MPI_COMM_NULL, talk = MPI_COMM_NULL;
  try {
    if (provided < MPI_THREAD_MULTIPLE) throw PeerError("this MPI library lets one thread call it");
    mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &ring));
    mpi::check(MPI_Comm_dup(MPI_COMM_WORLD, &talk));
    const int status = run(read_arguments(argc, argv), ring, talk);
    MPI_Comm_free(&ring);
    MPI_Comm_free(&talk);
    MPI_Finalize();
    return status;
  } catch (const Error& error) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) std::cerr << "error: " + std::string(error.what()) + "\n";  // at once
    MPI_Barrier(MPI_COMM_WORLD);  // all ranks come here alike
    MPI_Abort(MPI_COMM_WORLD, static_cast<int>(error.code()));
    return static_cast<int>(error.code());
  }
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  alarm(ddp::last_resort_seconds);
  return ddp::run_all(argc, argv);
}
