#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "03_naive_allreduce/all_reduce.hpp"
#include "05_nccl_ddp/bucket_plan.hpp"
#include "common/cuda/stream.hpp"
#include "common/cuda/trace.hpp"

namespace ddp {

/// All-reduces a flat gradient bucket by bucket, in a stream of its own, while the compute stream
/// goes on with the backward pass. Nothing here waits on the host: events order the two streams on
/// the device.
///
///     compute        | backward: layer 8 | layer 7 | layer 6 | ...          | update
///                              made_[0] \   made_[1] \                     / reduced_
///     communication                       | bucket 0 | bucket 1 | ... ----|
///
/// The stream has the highest priority, so that a collective gets its few multiprocessors as soon
/// as a block of the backward pass ends.
template <class T>
class GradientBuckets {
 public:
  /// Told which bucket's all-reduce has just been enqueued, of how many bytes, in which stream.
  using Enqueued = std::function<void(std::size_t, std::size_t, cudaStream_t communication)>;

  /// `gradients` are those of `parameters`, made by work in the stream `compute`; `plan` covers all
  /// of them.
  GradientBuckets(std::span<const Parameter> parameters, std::span<T> gradients,
                  std::vector<Bucket> plan, AllReduce<T>& all_reduce, cudaStream_t compute,
                  Enqueued on_enqueued = {})
      : parameters_(parameters),
        gradients_(gradients),
        plan_(std::move(plan)),
        all_reduce_(all_reduce),
        compute_(compute),
        on_enqueued_(std::move(on_enqueued)),
        made_(plan_.size()) {
    cuda::name_stream(communication_, "communication");
    start();
  }

  const std::vector<Bucket>& plan() const { return plan_; }

  /// The last of `parameter`'s gradient is in the compute stream: enqueued, not done. Once that is
  /// so for a bucket and all those before it, its all-reduce is enqueued. The order is that of the
  /// plan, whatever order the gradients come in: all ranks have to make the same calls.
  void ready(std::size_t parameter) {
    if (ready_.at(parameter)) {
      throw std::logic_error(parameters_[parameter].name + " was ready twice in one step");
    }
    ready_[parameter] = true;
    --missing_[bucket_of(parameter)];
    while (next_ < plan_.size() && missing_[next_] == 0) enqueue(next_++);
  }

  /// All gradients are in the compute stream.
  void all_ready() {
    for (std::size_t p = ready_.size(); p-- > 0;) ready(p);
  }

  /// Later work in the compute stream finds the sums of all buckets. Throws std::logic_error where
  /// a parameter was not ready: its bucket waits for it, and the other ranks for the bucket.
  void finish() {
    for (std::size_t p = 0; p < ready_.size(); ++p) {
      if (!ready_[p]) {
        throw std::logic_error(parameters_[p].name + " got no gradient in this step");
      }
    }
    // [exercise 5.3] The compute stream goes on after the last all-reduce; the host does not wait.
    reduced_.record(communication_);
    cuda::wait_for(compute_, reduced_);
    // [/exercise]
    start();
  }

 private:
  void start() {
    next_ = 0;
    missing_.clear();
    for (const Bucket& bucket : plan_) {
      missing_.push_back(bucket.last_parameter - bucket.first_parameter + 1);
    }
    ready_.assign(parameters_.size(), false);
  }

  std::size_t bucket_of(std::size_t parameter) const {
    std::size_t bucket = 0;
    while (parameter < plan_[bucket].first_parameter) ++bucket;
    return bucket;
  }

  void enqueue(std::size_t b) {
    // [exercise 5.2] The all-reduce must not read the gradients before they are made.
    made_[b].record(compute_);
    cuda::wait_for(communication_, made_[b]);
    // [/exercise]
    const std::string name = "bucket " + std::to_string(b);
    const cuda::Range range(name.c_str());
    const std::span<T> gradients = gradients_.subspan(plan_[b].begin, plan_[b].count);
    all_reduce_.sum(gradients, communication_);
    if (on_enqueued_) on_enqueued_(b, all_reduce_.bytes(gradients), communication_);
  }

  std::span<const Parameter> parameters_;
  std::span<T> gradients_;
  const std::vector<Bucket> plan_;
  AllReduce<T>& all_reduce_;
  cudaStream_t compute_;
  const Enqueued on_enqueued_;
  const cuda::Stream communication_{cuda::highest_priority()};
  std::vector<cuda::Event> made_;  // by bucket: its gradients
  const cuda::Event reduced_;

  // Of the step: the next bucket to enqueue, by bucket how many of its parameters are not ready,
  // and by parameter whether it is.
  std::size_t next_ = 0;
  std::vector<std::size_t> missing_;
  std::vector<bool> ready_;
};

}  // namespace ddp
