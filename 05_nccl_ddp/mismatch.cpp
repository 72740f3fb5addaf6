// Three all-reduces a step, of different sizes; in step 2 one rank leaves out one of them. It is
// the stage's smallest program, and it ends with exit code 5: the watchdog ends it.
//
//     ./course run nccl_mismatch --ranks 4                         the last rank, bucket 1
//     ./course run nccl_mismatch --ranks 4 -- 2                    the last rank, bucket 2
//     SIMGPU_NCCL=diagnose ./course run nccl_mismatch --ranks 4    what simulated NCCL knows of it

#include <array>
#include <chrono>
#include <string>

#include "05_nccl_ddp/nccl_allreduce.hpp"
#include "05_nccl_ddp/watchdog.hpp"
#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "common/mpi/environment.hpp"
#include "common/mpi/failure.hpp"

namespace ddp {
namespace {

constexpr std::chrono::seconds patience{3};
constexpr std::array<std::size_t, 3> elements = {1000, 3000, 2000};  // of the buckets
constexpr int steps = 4;

// The number of the bucket that is left out.
std::size_t read_bucket(int argc, char** argv) {
  const std::string text = argc < 2 ? "1" : argv[1];
  if (argc > 2 || text.size() != 1 || text[0] < '0' || text[0] > '2') {
    throw AgreedError(ExitCode::bad_option, "usage: nccl_mismatch [BUCKET], with 0, 1 or 2");
  }
  return static_cast<std::size_t>(text[0] - '0');
}

void run(std::size_t left_out, const mpi::Communicator& ranks) {
  const nccl::Communicator communicator(ranks, std::chrono::seconds(20));
  NcclAllReduce<float> all_reduce(communicator);
  nccl::Watchdog watchdog(communicator.handle(), patience);
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> gradients(elements[1]);
  cuda::clear_async(gradients.data(), gradients.size(), stream);
  const bool last = ranks.rank() == ranks.size() - 1;
  for (int step = 1; step <= steps; ++step) {
    ranks.set_step(step);
    for (std::size_t bucket = 0; bucket < elements.size(); ++bucket) {
      if (last && step == 2 && bucket == left_out) continue;  // the mistake
      all_reduce.sum({gradients.data(), elements[bucket]}, stream);
      watchdog.enqueued(step, bucket, stream);
    }
  }
  stream.synchronize();  // for ever, but for the watchdog
}

}  // namespace
}  // namespace ddp

int main(int argc, char** argv) {
  ddp::mpi::end_job_on_uncaught_exception();
  const std::size_t left_out = ddp::read_bucket(argc, argv);
  const ddp::mpi::Environment environment(ddp::mpi::DeviceUse::own);
  const ddp::mpi::Communicator ranks;
  ddp::run(left_out, ranks);
  ranks.barrier();
}
