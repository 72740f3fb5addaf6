#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "01_single_gpu/model.cuh"
#include "03_naive_allreduce/mpi_buffers.hpp"
#include "03_naive_allreduce/step_sums.cuh"
#include "04_ring_allreduce/make_all_reduce.hpp"
#include "05_nccl_ddp/communicator.hpp"
#include "05_nccl_ddp/gradient_buckets.hpp"
#include "05_nccl_ddp/nccl_allreduce.hpp"
#include "05_nccl_ddp/plan_text.hpp"
#include "05_nccl_ddp/watchdog.hpp"

namespace ddp {

/// What DistributedDataParallel adds to a step: gradients and scalars are added over all ranks in
/// buckets, each as soon as the backward pass has made it.
///
/// NCCL's all-reduce alone overlaps. Those over MPI block the host, which would stop enqueuing the
/// backward pass; they come after it. So do all buckets of the first step, for what runs for the
/// first time may have to be loaded, which waits for the device and with it for the peers; and of
/// --accumulate pairwise, whose sums are made after the backward pass.
template <class T>
class StepReducer {
 public:
  /// How the reducer sends with NCCL, if not by plain NcclAllReduce (stage 06).
  using MakeNccl = std::function<std::unique_ptr<AllReduce<T>>(const nccl::Communicator&)>;

  /// Collective. Throws AgreedError where ranks differ in their buckets or NCCL cannot start.
  StepReducer(const Options& options, const ParameterStore<T>& parameters, StepScalars<T>* scalars,
              const mpi::Communicator& ranks, bool simulated, cudaStream_t stream,
              const MakeNccl& make_nccl = {})
      : parameters_(parameters),
        scalars_(scalars),
        ranks_(ranks),
        stream_(stream),
        overlap_(options.overlap && options.allreduce == AllReduceKind::nccl &&
                 options.accumulate == Accumulate::running) {
    std::vector<Bucket> plan =
        plan_buckets(parameters.parameters(), parameters.gradients_and_extras().size(), sizeof(T),
                     options.first_bucket_mb * mebibyte, options.bucket_mb * mebibyte);
    check_same_plan(plan, ranks);
    if (options.print_buckets && ranks.rank() == 0) print_plan(plan, parameters.parameters());
    if (options.allreduce == AllReduceKind::nccl) {
      const auto deadline = std::chrono::duration<double>(
          options.timeout > 0 ? options.timeout : longest_start_seconds);
      nccl_.emplace(ranks, deadline);
      watchdog_.emplace(nccl_->handle(), std::chrono::duration<double>(options.timeout));
      all_reduce_ = make_nccl ? make_nccl(*nccl_) : std::make_unique<NcclAllReduce<T>>(*nccl_);
    } else {
      all_reduce_ = make_all_reduce<T>(options.allreduce, ranks,
                                       pass_device_pointers(options.mpi_buffers, simulated));
    }
    buckets_.emplace(parameters.parameters(), parameters.gradients_and_extras(), std::move(plan),
                     *all_reduce_, stream, [this](auto... what) { enqueued(what...); });
  }

  /// For the backward pass of `micro`: whom to tell of finished gradients. Nobody, as long as
  /// micro-batches follow whose gradients will be added: that is what PyTorch calls no_sync.
  GradientCallback during_backward(const Step& step, const MicroBatch& micro, bool stop) {
    step_ = step.number;
    // [exercise 5.4] One all-reduce a bucket a step, of the sum of all micro-batches.
    overlapping_ = micro.index + 1 == static_cast<int>(step.micro_batches.size());
    // [/exercise]
    overlapping_ = overlapping_ && overlap_ && warm_;
    if (!overlapping_) return {};
    pack_scalars(parameters_, scalars_, ranks_, stop, stream_);  // with the first bucket
    return [this](std::size_t parameter) { buckets_->ready(parameter); };
  }

  /// After the last micro-batch: later work in the stream finds the sums over all ranks.
  void finish(bool stop) {
    if (!overlapping_) {
      pack_scalars(parameters_, scalars_, ranks_, stop, stream_);
      buckets_->all_ready();
    }
    buckets_->finish();
    unpack_scalars(parameters_, scalars_, ranks_, stream_);
    warm_ = true;
  }

  const std::vector<Bucket>& plan() const { return buckets_->plan(); }

 private:
  static constexpr double mebibyte = 1 << 20, longest_start_seconds = 120;

  void enqueued(std::size_t bucket, std::size_t bytes, cudaStream_t communication) {
    ranks_.count_collective(bytes);
    if (watchdog_) watchdog_->enqueued(step_, bucket, communication);
  }

  const ParameterStore<T>& parameters_;
  StepScalars<T>* const scalars_;
  const mpi::Communicator& ranks_;
  const cudaStream_t stream_;
  const bool overlap_;
  std::optional<nccl::Communicator> nccl_;
  std::optional<nccl::Watchdog> watchdog_;
  std::unique_ptr<AllReduce<T>> all_reduce_;
  std::optional<GradientBuckets<T>> buckets_;
  std::int64_t step_ = 0;
  bool overlapping_ = false;
  bool warm_ = false;
};

}  // namespace ddp
