// What a step in the steady state may not do, counted by the simulator: see stage 05. The loss
// scale must change none of it, though it decides whether weights change.

#include "06_mixed_precision/train.hpp"
#include "simgpu/include/simgpu/statistics.h"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {
namespace {

simgpu::Statistics of_a_run(ReduceType reduce, int last_step) {
  Options options;
  options.data = "synthetic";
  options.layers = {20, 16, 16, 8, 4};
  options.precision = Precision::fp16;
  options.global_batch = 12 * world().size();
  options.micro_batch = 4;
  options.steps = last_step;
  options.quiet = true;
  options.device = environment().device();
  options.allreduce = AllReduceKind::nccl;
  options.bucket_mb = options.first_bucket_mb = 0;
  options.clip_norm = 1;
  options.reduce_type = reduce;
  // Grows every few steps, up to an overflow.
  options.loss_scale = {.first = 1 << 20, .growth_interval = 4, .floor = 1, .ceiling = 1 << 24};
  const simgpu::Statistics before = simgpu::statistics();
  mixed_precision::train(options, world());
  return simgpu::statistics() - before;
}

TEST_CASE("A steady step in halves allocates nothing and waits for nothing but a read",
          "[not-tsan]") {
  for (const ReduceType reduce : {ReduceType::fp32, ReduceType::same}) {
    of_a_run(reduce, 10);  // the first run of a process uses its kernels for the first time
    const simgpu::Statistics more = of_a_run(reduce, 60) - of_a_run(reduce, 10);
    CHECK(more.allocations == 0);
    CHECK(more.frees == 0);
    CHECK(more.null_stream_calls == 0);
    CHECK(more.first_uses == 0);
    // A bucket a parameter; with halves the numbers behind the gradients go by themselves.
    CHECK(more.collectives == 50 * (reduce == ReduceType::same ? 8 + 1 : 8));
    // As in stage 05: a read, and for each of the three micro-batches that its pinned buffer is
    // free again.
    CHECK(more.host_waits == 50 * (1 + 3));
  }
}

}  // namespace
}  // namespace ddp
