#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

/// Cuts the training set into global batches, epoch after epoch.
///
/// The order of an epoch is a pure function of (seed, epoch), never of the number of ranks: ranks
/// share out a batch, they do not draw their own. Every epoch visits each sample once; its last
/// batch is short where the sizes do not divide (60,000 samples in batches of 256 leave 96).
class BatchSampler {
 public:
  /// `shuffle` false keeps the order of the data set. Sizes are at least 1.
  BatchSampler(int dataset_size, int global_batch, std::uint64_t seed, bool shuffle);

  std::int64_t steps_per_epoch() const { return steps_per_epoch_; }

  /// Epoch of a step; both are counted from 1.
  int epoch_of(std::int64_t step) const;

  /// Sample ids of a step, counted from 1. The span stays valid until a step two or more epochs
  /// away is asked for, so that the next batch can be prepared across the end of an epoch.
  std::span<const std::uint32_t> batch(std::int64_t step);

 private:
  struct Order {
    int epoch = 0;
    std::vector<std::uint32_t> samples;
  };
  const std::vector<std::uint32_t>& order_of(int epoch);

  int dataset_size_;
  int global_batch_;
  std::uint64_t seed_;
  bool shuffle_;
  std::int64_t steps_per_epoch_;
  std::array<Order, 2> orders_;  // of an odd and an even epoch
};

}  // namespace ddp
