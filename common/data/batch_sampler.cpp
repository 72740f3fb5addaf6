#include "common/data/batch_sampler.hpp"

#include <algorithm>
#include <numeric>
#include <utility>

#include "common/data/random.hpp"

namespace ddp {
namespace {

// Fisher and Yates: each of the n! orders is equally likely.
void shuffle_samples(std::vector<std::uint32_t>& samples, std::uint64_t seed, int epoch) {
  const std::uint64_t stream = random_stream(RandomUse::shuffle, static_cast<std::uint32_t>(epoch));
  for (auto last = static_cast<std::uint32_t>(samples.size()) - 1; last > 0; --last) {
    std::swap(samples[last], samples[uniform_below(last + 1, seed, stream, last)]);
  }
}

}  // namespace

BatchSampler::BatchSampler(int dataset_size, int global_batch, std::uint64_t seed, bool shuffle)
    : dataset_size_(dataset_size),
      global_batch_(global_batch),
      seed_(seed),
      shuffle_(shuffle),
      steps_per_epoch_((std::int64_t{dataset_size} + global_batch - 1) / global_batch) {}

int BatchSampler::epoch_of(std::int64_t step) const {
  return static_cast<int>((step - 1) / steps_per_epoch_) + 1;
}

std::span<const std::uint32_t> BatchSampler::batch(std::int64_t step) {
  const std::vector<std::uint32_t>& order = order_of(epoch_of(step));
  const std::int64_t begin = (step - 1) % steps_per_epoch_ * global_batch_;
  const std::int64_t count = std::min<std::int64_t>(global_batch_, dataset_size_ - begin);
  return std::span(order).subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(count));
}

const std::vector<std::uint32_t>& BatchSampler::order_of(int epoch) {
  Order& order = orders_[static_cast<std::size_t>(epoch % 2)];
  if (order.epoch != epoch) {
    order.epoch = epoch;
    order.samples.resize(static_cast<std::size_t>(dataset_size_));
    std::iota(order.samples.begin(), order.samples.end(), 0u);
    if (shuffle_) shuffle_samples(order.samples, seed_, epoch);
  }
  return order.samples;
}

}  // namespace ddp
