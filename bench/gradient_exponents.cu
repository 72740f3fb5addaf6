// How large are gradients? Trains the default net in fp32 with batches of 256, then prints, as
// JSON, how many gradients of one batch of 256 and of one of 16,384 have which exponent of two:
// those of the logits, of the sums in both hidden layers, and of the weights. What fp16 makes of
// them follows from the exponents alone: it flushes to zero what is below 2^-25, half of its
// smallest number.
//
//     gradient_exponents [STEPS]     (705, three epochs)

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "01_single_gpu/sgd.cuh"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/data/batch_sampler.hpp"
#include "common/data/dataset.hpp"

namespace ddp::bench {
namespace {

constexpr int small_batch = 256, large_batch = 16384;

struct Histogram {
  std::map<int, std::int64_t> by_exponent;  // |gradient| from 2^exponent to 2^(exponent + 1)
  std::int64_t zeros = 0;                   // in fp32: behind a ReLU, or a pixel that is always 0

  void add(std::span<const float> gradients) {
    for (const float gradient : gradients) {
      if (gradient == 0) {
        ++zeros;
      } else {
        ++by_exponent[std::ilogb(gradient)];
      }
    }
  }
};

class Training {
 public:
  Training() : sgd_(options_, model_.parameters(), stream_) {
    cuda::clear_async(scalars_.data(), 1, stream_);
  }

  void train(int steps) {
    BatchSampler sampler(data_.train.size(), small_batch, options_.seed, true);
    for (int step = 1; step <= steps; ++step) {
      make_gradients(sampler.batch(step));
      sgd_.step(model_.parameters(), options_.learning_rate, scalars_.data(), stream_);
    }
  }

  std::vector<std::pair<std::string, Histogram>> histograms(int batch_size) {
    BatchSampler sampler(data_.train.size(), batch_size, options_.seed, true);
    const int count = make_gradients(sampler.batch(1));
    std::vector<std::pair<std::string, Histogram>> result(4);
    const auto add = [&](std::size_t index, const char* name, std::span<const float> values) {
      result[index].first = name;
      result[index].second.add(cuda::download(values.data(), values.size(), stream_));
    };
    add(0, "logits", {output_gradient_, static_cast<std::size_t>(count) * 10});
    add(1, "second hidden layer", model_.hidden_gradient(1));
    add(2, "first hidden layer", model_.hidden_gradient(0));
    for (std::size_t p = 0; p < model_.parameters().parameters().size(); p += 2) {
      add(3, "weights", model_.parameters().gradient(p));
    }
    return result;
  }

 private:
  int make_gradients(std::span<const std::uint32_t> samples) {
    std::vector<float> inputs(samples.size() * 784);
    std::vector<std::int32_t> labels(samples.size());
    data_.train.gather_inputs(samples, inputs.data());
    data_.train.gather_labels(samples, labels.data());
    cuda::upload(inputs_.data(), std::span<const float>(inputs), stream_);
    cuda::upload(labels_.data(), std::span<const std::int32_t>(labels), stream_);
    const int count = static_cast<int>(samples.size());
    const Batch<float> batch{inputs_.data(), labels_.data(), nullptr, count};
    const float* outputs = model_.forward(batch.inputs, count);
    output_gradient_ = loss_.forward_backward(outputs, batch, count, scalars_.data(), stream_);
    model_.backward(output_gradient_);
    return count;
  }

  Options options_;
  TrainAndTest data_ = load_data(options_);
  cuda::Stream stream_;
  Model<float> model_{options_, large_batch, stream_};
  Loss<float> loss_{LossKind::cross_entropy, 10, large_batch};
  Sgd<float> sgd_;
  cuda::DeviceBuffer<StepScalars<float>> scalars_{1};
  cuda::DeviceBuffer<float> inputs_{large_batch * 784};
  cuda::DeviceBuffer<std::int32_t> labels_{large_batch};
  const float* output_gradient_ = nullptr;
};

void print(const char* separator, int batch, const std::string& name, const Histogram& histogram) {
  std::printf("%s\n  {\"batch\": %d, \"of\": \"%s\", \"zeros\": %lld, \"by_exponent\": {",
              separator, batch, name.c_str(), static_cast<long long>(histogram.zeros));
  const char* comma = "";
  for (const auto& [exponent, count] : histogram.by_exponent) {
    std::printf("%s\"%d\": %lld", comma, exponent, static_cast<long long>(count));
    comma = ", ";
  }
  std::printf("}}");
}

void print_all(int steps) {
  Training training;
  training.train(steps);
  std::printf("{\"steps\": %d, \"histograms\": [", steps);
  const char* separator = "";
  for (const int batch : {small_batch, large_batch}) {
    for (const auto& [name, histogram] : training.histograms(batch)) {
      print(separator, batch, name, histogram);
      separator = ",";
    }
  }
  std::printf("\n]}\n");
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 705;
  if (argc > 2 || steps < 1) {
    std::fprintf(stderr, "usage: gradient_exponents [STEPS], from 1\n");
    return 2;
  }
  try {
    ddp::bench::print_all(steps);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 6;
  }
}
