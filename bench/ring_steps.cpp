// Shows the ring step by step: whose terms each chunk of each rank holds.
//
//     ./course run ring_steps --ranks 3 [-- --json FILE] [--slow RANK:MS]
//
// Element c of a rank's buffer is chunk c, and rank r begins with 2^r everywhere. So a sum says by
// its bits which terms are in it. The file also has what every rank sends in each step, and when:
// in a second round with a gradient of the course's network, in which nobody looks in between, and
// in which the rank that --slow names sleeps before each of its steps. And the bytes that every
// rank sends in an all-reduce of that gradient, naive and ring, as counted. tools/plot_ring.py
// draws it, docs/player.html plays it.

#include <fmt/format.h>
#include <mpi.h>

#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "04_ring_allreduce/make_all_reduce.hpp"
#include "04_ring_allreduce/ring_allreduce.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/errors.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/environment.hpp"

namespace ddp::bench {
namespace {

constexpr std::size_t gradients = 535'818;  // of 784-512-256-10

/// What lies in the buffers of all ranks: [rank][chunk], in bits.
using Picture = std::vector<std::vector<unsigned>>;

struct Row {
  std::string phase;
  int step;
  Picture picture;
};

/// When a rank was in a step, in milliseconds since all ranks left a barrier.
struct Stay {
  double begin;
  double end;
};
/// [step][rank], the steps of both phases in a row.
using Stays = std::vector<std::vector<Stay>>;

/// The rank that is late in each step, and by how much.
struct Slow {
  int rank;
  std::chrono::milliseconds delay;
};

struct Options {
  std::string json;
  std::optional<Slow> slow;
};

/// Collective; every rank gets the whole picture.
Picture look(std::span<const float> values, const mpi::Communicator& ranks, cudaStream_t stream) {
  const std::vector<float> mine = cuda::download(values.data(), values.size(), stream);
  std::vector<float> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  const int count = static_cast<int>(mine.size());
  mpi::check(
      MPI_Allgather(mine.data(), count, MPI_FLOAT, all.data(), count, MPI_FLOAT, ranks.handle()));
  Picture picture(static_cast<std::size_t>(ranks.size()), std::vector<unsigned>(mine.size()));
  for (std::size_t i = 0; i < all.size(); ++i) {
    picture[i / mine.size()][i % mine.size()] = static_cast<unsigned>(all[i]);
  }
  return picture;
}

/// Of both phases.
int steps(const mpi::Communicator& ranks) { return 2 * (ranks.size() - 1); }

void do_step(RingAllReduce<float>& ring, int index, const mpi::Communicator& ranks,
             std::span<float> values, cudaStream_t stream) {
  const int in_phase = ranks.size() - 1;
  if (index < in_phase) {
    ring.reduce_scatter_step(index, values, values, stream);
  } else {
    ring.all_gather_step(index - in_phase, values, stream);
  }
}

std::vector<Row> run_ring(const mpi::Communicator& ranks, bool device_pointers) {
  const cuda::Stream stream;
  const auto chunks = static_cast<std::size_t>(ranks.size());
  const cuda::DeviceBuffer<float> buffer(chunks);
  const std::span<float> values(buffer.data(), chunks);
  const std::vector<float> at_first(chunks, static_cast<float>(1U << ranks.rank()));
  cuda::upload<float>(values.data(), at_first, stream);

  RingAllReduce<float> ring(ranks, device_pointers);
  std::vector<Row> rows = {{"at first", -1, look(values, ranks, stream)}};
  for (int index = 0; index < steps(ranks); ++index) {
    do_step(ring, index, ranks, values, stream);
    const bool scatters = index < ranks.size() - 1;
    rows.push_back({scatters ? "reduce-scatter" : "all-gather",
                    scatters ? index : index - (ranks.size() - 1), look(values, ranks, stream)});
  }
  return rows;
}

/// Collective: the times of the same steps where no rank waits for more than its neighbours.
Stays time_ring(const std::optional<Slow>& slow, const mpi::Communicator& ranks,
                bool device_pointers) {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> buffer(gradients);
  const std::span<float> values(buffer.data(), gradients);
  cuda::clear_async(buffer.data(), gradients, stream);
  RingAllReduce<float> ring(ranks, device_pointers);
  ring.sum(values, values, stream);  // the first messages and the first touch of memory cost more

  std::vector<Stay> mine;
  const auto now = [] { return 1e3 * MPI_Wtime(); };
  ranks.barrier();
  const double start = now();
  for (int index = 0; index < steps(ranks); ++index) {
    if (slow && slow->rank == ranks.rank()) std::this_thread::sleep_for(slow->delay);
    const double begin = now() - start;
    do_step(ring, index, ranks, values, stream);
    cuda::check(cudaStreamSynchronize(stream));
    mine.push_back({begin, now() - start});
  }
  std::vector<Stay> all(mine.size() * static_cast<std::size_t>(ranks.size()));
  const int count = 2 * static_cast<int>(mine.size());
  mpi::check(
      MPI_Allgather(mine.data(), count, MPI_DOUBLE, all.data(), count, MPI_DOUBLE, ranks.handle()));
  Stays stays(mine.size());
  for (std::size_t i = 0; i < all.size(); ++i) stays[i % mine.size()].push_back(all[i]);
  return stays;
}

/// The bytes that each rank sends in one all-reduce.
std::vector<std::int64_t> bytes_sent(AllReduceKind kind, const mpi::Communicator& ranks,
                                     bool device_pointers) {
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> buffer(gradients);
  cuda::clear_async(buffer.data(), gradients, stream);
  const mpi::Communicator counting;
  make_all_reduce<float>(kind, counting, device_pointers)->sum({buffer.data(), gradients}, stream);
  const std::int64_t mine = counting.traffic().bytes_sent;
  std::vector<std::int64_t> all(static_cast<std::size_t>(ranks.size()));
  mpi::check(MPI_Allgather(&mine, 1, MPI_INT64_T, all.data(), 1, MPI_INT64_T, ranks.handle()));
  return all;
}

/// "02" for the terms of the ranks 0 and 2.
std::string terms(unsigned bits) {
  std::string text;
  for (int rank = 0; bits >> rank != 0; ++rank) {
    if ((bits >> rank & 1) != 0) text += std::to_string(rank);
  }
  return text;
}

void print(const std::vector<Row>& rows, int ranks) {
  fmt::print("whose terms each chunk holds, after each step\n\n{:18}", "");
  for (int rank = 0; rank < ranks; ++rank) fmt::print("rank {:<{}}", rank, (ranks + 1) * ranks - 2);
  fmt::print("\n{:18}", "chunk");
  for (int rank = 0; rank < ranks; ++rank) {
    for (int chunk = 0; chunk < ranks; ++chunk) fmt::print("{:<{}}", chunk, ranks + 1);
    fmt::print("   ");
  }
  for (const Row& row : rows) {
    fmt::print("\n{:18}", row.step < 0 ? row.phase : fmt::format("{} {}", row.phase, row.step));
    for (const auto& chunks : row.picture) {
      for (const unsigned bits : chunks) fmt::print("{:<{}}", terms(bits), ranks + 1);
      fmt::print("   ");
    }
  }
  fmt::print("\n");
  std::fflush(stdout);
}

/// What each rank sent: to its right neighbour, the chunk that has changed there (null: none has).
nlohmann::ordered_json messages(const Picture& before, const Picture& after,
                                const std::vector<Stay>& stays) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (std::size_t rank = 0; rank < stays.size(); ++rank) {
    const std::size_t right = (rank + 1) % stays.size();
    nlohmann::ordered_json chunk;
    for (std::size_t i = 0; i < stays.size(); ++i) {
      if (before[right][i] != after[right][i]) chunk = i;
    }
    rows.push_back({{"to", right},
                    {"chunk", chunk},
                    {"begin_ms", stays[rank].begin},
                    {"end_ms", stays[rank].end}});
  }
  return rows;
}

void write(const Options& options, const std::vector<Row>& rows, const Stays& stays,
           const std::vector<std::int64_t>& naive, const std::vector<std::int64_t>& ring) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    steps.push_back({{"phase", row.phase}, {"step", row.step}, {"bits", row.picture}});
    if (i > 0) {
      steps.back()["messages"] = messages(rows[i - 1].picture, row.picture, stays[i - 1]);
    }
  }
  const char* const link = std::getenv("SIMGPU_LINK");
  nlohmann::ordered_json whole{{"ranks", naive.size()},
                               {"gradient_bytes", sizeof(float) * gradients},
                               {"link", link == nullptr ? "" : link},
                               {"steps", steps},
                               {"bytes_sent", {{"naive", naive}, {"ring", ring}}}};
  if (options.slow) {
    whole["slow"] = {{"rank", options.slow->rank}, {"ms", options.slow->delay.count()}};
  }
  std::ofstream file(options.json);
  file << whole << '\n';
  if (!file.flush()) throw InputError(options.json + ": cannot be written");
}

void run(const Options& options, const mpi::Environment& environment) {
  const mpi::Communicator ranks;
  if (ranks.size() > 8) throw OptionError("ring_steps draws 1 to 8 ranks");
  if (options.slow && options.slow->rank >= ranks.size()) {
    throw OptionError(
        fmt::format("--slow {}: the ranks are 0 to {}", options.slow->rank, ranks.size() - 1));
  }
  // The simulated GPU's memory is the host's; a real one's goes through pinned memory here.
  const bool device_pointers = environment.simulated();
  const std::vector<Row> rows = run_ring(ranks, device_pointers);
  const Stays stays = time_ring(options.slow, ranks, device_pointers);
  const auto naive = bytes_sent(AllReduceKind::naive, ranks, device_pointers);
  const auto ring = bytes_sent(AllReduceKind::ring, ranks, device_pointers);
  if (ranks.rank() != 0) return;
  print(rows, ranks.size());
  if (!options.json.empty()) write(options, rows, stays, naive, ring);
}

/// RANK:MS, two whole numbers.
std::optional<Slow> parse_slow(std::string_view text) {
  constexpr int most_milliseconds = 10'000;
  const char* const end = text.data() + text.size();
  int rank = -1;
  int milliseconds = -1;
  const auto [colon, bad_rank] = std::from_chars(text.data(), end, rank);
  if (bad_rank != std::errc() || colon == end || *colon != ':') return std::nullopt;
  const auto [stop, bad_time] = std::from_chars(colon + 1, end, milliseconds);
  if (bad_time != std::errc() || stop != end || rank < 0) return std::nullopt;
  if (milliseconds < 0 || milliseconds > most_milliseconds) return std::nullopt;
  return Slow{rank, std::chrono::milliseconds(milliseconds)};
}

std::optional<Options> parse(std::span<const std::string> words) {
  Options options;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    if (i + 1 == words.size()) return std::nullopt;
    if (words[i] == "--json") {
      options.json = words[i + 1];
    } else if (words[i] != "--slow" || !(options.slow = parse_slow(words[i + 1]))) {
      return std::nullopt;
    }
  }
  return options;
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const auto options = ddp::bench::parse(words);
  if (!options) {
    std::cerr << "error: usage: ring_steps [--json FILE] [--slow RANK:MS]" << std::endl;
    return 2;
  }
  try {
    const ddp::mpi::Environment environment(ddp::mpi::DeviceUse::own);
    try {
      ddp::bench::run(*options, environment);
      return 0;
    } catch (const std::exception& error) {
      // Other ranks may be waiting for this one: nobody goes on.
      std::cerr << "error: " + std::string(error.what()) + "\n";
      const auto* const known = dynamic_cast<const ddp::Error*>(&error);
      MPI_Abort(MPI_COMM_WORLD, known == nullptr ? 1 : static_cast<int>(known->code()));
    }
  } catch (const ddp::Error& error) {
    std::cerr << "error: " + std::string(error.what()) + "\n";
    return static_cast<int>(error.code());
  }
  return 1;
}
