// What a step in the steady state may not do, counted by the simulator. On a real GPU each of these
// would stop the host or the device under a running collective; the results would still be right.

#include "05_nccl_ddp/train.hpp"
#include "simgpu/include/simgpu/statistics.h"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

simgpu::Statistics of_a_run(int steps) {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 16, 8, 4};
  options.global_batch = 24;
  options.micro_batch = 4;
  options.steps = steps;
  options.quiet = true;
  options.device = environment().device();
  options.allreduce = AllReduceKind::nccl;
  options.bucket_mb = options.first_bucket_mb = 0;
  options.clip_norm = 1;
  const simgpu::Statistics before = simgpu::statistics();
  nccl_ddp::train(options, world());
  return simgpu::statistics() - before;
}

TEST_CASE("A steady step allocates nothing, uses no null stream and waits for nothing but a read") {
  of_a_run(10);  // the first run of a process uses its kernels for the first time
  const simgpu::Statistics more = of_a_run(60) - of_a_run(10);
  CHECK(more.allocations == 0);
  CHECK(more.frees == 0);
  CHECK(more.null_stream_calls == 0);
  CHECK(more.first_uses == 0);
  CHECK(more.collectives == 50 * 8);
  // The read of the scalars of a few steps before, and for each of the three micro-batches that its
  // pinned buffer is free again: waits for what was enqueued long ago.
  CHECK(more.host_waits == 50 * (1 + 3));
}

}  // namespace
}  // namespace ddp
