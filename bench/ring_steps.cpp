// Shows the ring step by step: whose terms each chunk of each rank holds.
//
//     ./course run ring_steps --ranks 3 [-- --json FILE]
//
// Element c of a rank's buffer is chunk c, and rank r begins with 2^r everywhere. So a sum says by
// its bits which terms are in it. The file also has the bytes that every rank sends in an
// all-reduce of a gradient of the course's network, naive and ring, as counted; tools/plot_ring.py
// draws it.

#include <fmt/format.h>
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>
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

std::vector<Row> run_ring(const mpi::Communicator& ranks, bool device_pointers) {
  const cuda::Stream stream;
  const auto chunks = static_cast<std::size_t>(ranks.size());
  const cuda::DeviceBuffer<float> buffer(chunks);
  const std::span<float> values(buffer.data(), chunks);
  const std::vector<float> at_first(chunks, static_cast<float>(1U << ranks.rank()));
  cuda::upload<float>(values.data(), at_first, stream);

  RingAllReduce<float> ring(ranks, device_pointers);
  std::vector<Row> rows = {{"at first", -1, look(values, ranks, stream)}};
  for (int step = 0; step < ranks.size() - 1; ++step) {
    ring.reduce_scatter_step(step, values, values, stream);
    rows.push_back({"reduce-scatter", step, look(values, ranks, stream)});
  }
  for (int step = 0; step < ranks.size() - 1; ++step) {
    ring.all_gather_step(step, values, stream);
    rows.push_back({"all-gather", step, look(values, ranks, stream)});
  }
  return rows;
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

void write(const std::string& path, const std::vector<Row>& rows,
           const std::vector<std::int64_t>& naive, const std::vector<std::int64_t>& ring) {
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const Row& row : rows) {
    steps.push_back({{"phase", row.phase}, {"step", row.step}, {"bits", row.picture}});
  }
  std::ofstream file(path);
  file << nlohmann::ordered_json{{"ranks", naive.size()},
                                 {"gradient_bytes", sizeof(float) * gradients},
                                 {"steps", steps},
                                 {"bytes_sent", {{"naive", naive}, {"ring", ring}}}}
       << '\n';
  if (!file.flush()) throw InputError(path + ": cannot be written");
}

void run(const std::string& json, const mpi::Environment& environment) {
  const mpi::Communicator ranks;
  if (ranks.size() > 8) throw OptionError("ring_steps draws 1 to 8 ranks");
  // The simulated GPU's memory is the host's; a real one's goes through pinned memory here.
  const bool device_pointers = environment.simulated();
  const std::vector<Row> rows = run_ring(ranks, device_pointers);
  const auto naive = bytes_sent(AllReduceKind::naive, ranks, device_pointers);
  const auto ring = bytes_sent(AllReduceKind::ring, ranks, device_pointers);
  if (ranks.rank() != 0) return;
  print(rows, ranks.size());
  if (!json.empty()) write(json, rows, naive, ring);
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  if (!words.empty() && (words.size() != 2 || words[0] != "--json")) {
    std::cerr << "error: usage: ring_steps [--json FILE]" << std::endl;
    return 2;
  }
  try {
    const ddp::mpi::Environment environment(ddp::mpi::DeviceUse::own);
    try {
      ddp::bench::run(words.empty() ? "" : words[1], environment);
      return 0;
    } catch (const std::exception& error) {
      // Other ranks may be waiting for this one: nobody goes on.
      std::cerr << "error: " << error.what() << std::endl;
      const auto* const known = dynamic_cast<const ddp::Error*>(&error);
      MPI_Abort(MPI_COMM_WORLD, known == nullptr ? 1 : static_cast<int>(known->code()));
    }
  } catch (const ddp::Error& error) {
    std::cerr << "error: " << error.what() << std::endl;
    return static_cast<int>(error.code());
  }
  return 1;
}
