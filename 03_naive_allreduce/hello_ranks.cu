// The smallest program of several ranks: each has two numbers on its device, and all end with the
// mean. Start it with  ./course run hello_ranks --ranks 2.

#include <cstdio>
#include <string>
#include <vector>

#include "03_naive_allreduce/naive_allreduce.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/mpi/environment.hpp"
#include "common/mpi/failure.hpp"

int main() {
  ddp::mpi::end_job_on_uncaught_exception();
  const ddp::mpi::Environment environment(ddp::mpi::DeviceUse::shared);
  const ddp::mpi::Communicator ranks;
  const ddp::cuda::Stream stream;

  // Rank 0 has [1, 3], rank 1 has [3, 5], and so on.
  const auto first = static_cast<float>(1 + 2 * ranks.rank());
  const std::vector<float> mine = {first, first + 2};
  const ddp::cuda::DeviceBuffer<float> buffer(2);
  ddp::cuda::upload<float>(buffer.data(), mine, stream);

  ddp::NaiveAllReduce<float> all_reduce(ranks, false);
  all_reduce.sum(std::span<float>(buffer.data(), 2), stream);

  const std::vector<float> sum = ddp::cuda::download(buffer.data(), 2, stream);
  const auto size = static_cast<float>(ranks.size());
  char line[120];
  std::snprintf(line, sizeof line, "rank %d of %d: [%g, %g] -> sum [%g, %g] -> mean [%g, %g]",
                ranks.rank(), ranks.size(), mine[0], mine[1], sum[0], sum[1], sum[0] / size,
                sum[1] / size);
  // Every rank knows its line; one prints them, in order.
  for (const std::string& text : ranks.all_gather(line)) {
    if (ranks.rank() == 0) std::printf("%s\n", text.c_str());
  }
}
