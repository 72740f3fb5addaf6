// Buckets and their order on small arrays whose sums are known by hand.

#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "05_nccl_ddp/gradient_buckets.hpp"
#include "05_nccl_ddp/nccl_allreduce.hpp"
#include "05_nccl_ddp/plan_text.hpp"
#include "common/cuda/launch.hpp"
#include "common/errors.hpp"
#include "tests/01_single_gpu/device_values.hpp"
#include "tests/05_nccl_ddp/nccl_world.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"

namespace ddp {
namespace {

constexpr std::size_t each = 4;  // elements of a parameter

// `count` parameters of four elements: "p0", "p1", ...
std::vector<Parameter> parameters(std::size_t count) {
  std::vector<Parameter> result;
  for (std::size_t p = 0; p < count; ++p) {
    const std::string name{'p', static_cast<char>('0' + p)};
    result.push_back({name, {static_cast<int>(each)}, true, p * each, each});
  }
  return result;
}

std::vector<Bucket> one_bucket_each(std::size_t count) {
  return plan_buckets(parameters(count), count * each, sizeof(float), 0, 0);
}

// 1 + 2 + ... + N: what the ranks' numbers, counted from 1, add up to.
float sum_of_ranks() {
  const int n = world().size();
  return static_cast<float>(n * (n + 1)) / 2;
}
float own_number() { return static_cast<float>(world().rank() + 1); }

TEST_CASE("DD-02 a: buckets are all-reduced in the order of the plan, whatever is ready first") {
  const cuda::Stream stream;
  const float r = own_number();
  // Parameter 1 is bucket 0.
  const DeviceValues<float> gradients({10 * r, 10 * r, 10 * r, 10 * r, r, r, r, r});
  NcclAllReduce<float> all_reduce(nccl_world());
  std::vector<std::size_t> order;
  const std::vector<Parameter> names = parameters(2);
  GradientBuckets<float> buckets(
      names, {gradients.data(), 2 * each}, one_bucket_each(2), all_reduce, stream,
      [&](std::size_t b, std::size_t, cudaStream_t) { order.push_back(b); });
  const bool reversed = world().rank() == world().size() - 1;
  buckets.ready(reversed ? 0 : 1);
  CHECK(order.size() == (reversed ? 0 : 1));
  buckets.ready(reversed ? 1 : 0);
  buckets.finish();
  CHECK(order == std::vector<std::size_t>{0, 1});
  const float a = sum_of_ranks();
  CHECK(cuda::download(gradients.data(), 2 * each, stream) ==
        std::vector<float>{10 * a, 10 * a, 10 * a, 10 * a, a, a, a, a});
}

TEST_CASE("DD-02 b: ranks whose buckets differ learn of it before the first step") {
  if (world().size() == 1) return;
  std::vector<Parameter> mine = parameters(2);
  const bool other = world().rank() == world().size() - 1;
  if (other) mine.back().count = 6;
  const std::vector<Bucket> plan = plan_buckets(mine, other ? 10 : 8, sizeof(float), 0, 0);
  const std::string message = error_of<AgreedError>([&] { check_same_plan(plan, world()); });
  CHECK(message.find("bucket 0 has 4 elements") != std::string::npos);
  CHECK(message.find("has 6 elements") != std::string::npos);
  CHECK(message.find("on rank " + std::to_string(world().size() - 1)) != std::string::npos);
  check_same_plan(one_bucket_each(2), world());
}

TEST_CASE("A parameter that gets no gradient, or two, is an error that names it") {
  const cuda::Stream stream;
  const DeviceValues<float> gradients(std::vector<float>(2 * each, 0.0F));
  NcclAllReduce<float> all_reduce(nccl_world());
  const std::vector<Parameter> names = parameters(2);
  GradientBuckets<float> buckets(names, {gradients.data(), 2 * each}, one_bucket_each(2),
                                 all_reduce, stream);
  buckets.ready(1);
  CHECK(error_of<std::logic_error>([&] { buckets.finish(); }).find("p0 got no gradient") !=
        std::string::npos);
  CHECK(error_of<std::logic_error>([&] { buckets.ready(1); }).find("p1 was ready twice") !=
        std::string::npos);
}

__global__ void fill_kernel(float* values, std::size_t count, float value) {
  const std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) values[i] = value;
}
__global__ void add_kernel(float* sums, const float* values, std::size_t count) {
  const std::size_t i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i < count) sums[i] += values[i];
}

void delay(cudaStream_t stream) {
  cuda::check(cudaLaunchHostFunc(
      stream, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(5)); }, nullptr));
}

// NCCL's, which ends late.
class SlowAllReduce final : public AllReduce<float> {
 public:
  using AllReduce<float>::sum;
  void sum(std::span<const float> input, std::span<float> output, cudaStream_t stream) override {
    nccl_.sum(input, output, stream);
    delay(stream);
  }

 private:
  NcclAllReduce<float> nccl_{nccl_world()};
};

// Twenty steps: gradients are written late, reduced late, added up, and written again.
std::vector<float> twenty_steps(bool overlap, bool late_gradients, AllReduce<float>& all_reduce) {
  constexpr std::size_t count = 3;
  const cuda::Stream stream;
  const DeviceValues<float> gradients(std::vector<float>(count * each, 0.0F));
  const DeviceValues<float> sums(std::vector<float>(count * each, 0.0F));
  const std::vector<Parameter> names = parameters(count);
  GradientBuckets<float> buckets(names, {gradients.data(), count * each}, one_bucket_each(count),
                                 all_reduce, stream);
  for (int step = 1; step <= 20; ++step) {
    for (std::size_t p = count; p-- > 0;) {
      if (late_gradients) delay(stream);
      const float value = own_number() * static_cast<float>(step) + static_cast<float>(p);
      cuda::launch<fill_kernel>({stream, 1, each}, gradients.data() + p * each, each, value);
      if (overlap) buckets.ready(p);
    }
    if (!overlap) buckets.all_ready();
    buckets.finish();
    cuda::launch<add_kernel>({stream, 1, count * each}, sums.data(), gradients.data(),
                             count * each);
  }
  return cuda::download(sums.data(), count * each, stream);
}

TEST_CASE("DD-06: nothing is read, overwritten or used before it is finished") {
  std::vector<float> expected;
  for (std::size_t p = 0; p < 3; ++p) {
    // The sum over 20 steps of sum_of_ranks * step + N * p: 210 = 1 + ... + 20.
    const float value = 210 * sum_of_ranks() + 20 * static_cast<float>(world().size() * p);
    expected.insert(expected.end(), each, value);
  }
  NcclAllReduce<float> quick(nccl_world());
  SlowAllReduce slow;
  for (const bool overlap : {false, true}) {
    CHECK(twenty_steps(overlap, true, quick) == expected);
    CHECK(twenty_steps(overlap, false, slow) == expected);
  }
}

}  // namespace
}  // namespace ddp
