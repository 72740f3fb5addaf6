// How far is a central difference from the gradient? For steps h from 2^-1 to 2^-39, prints the
// largest difference between (L(w + h) - L(w - h)) / 2h and the gradient of the backward pass in
// fp64, over all parameters w of a small net, with the losses L computed in fp32 and in fp64.
// GELU, because a ReLU has a kink, and a difference across a kink is the slope of neither side.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <span>
#include <vector>

#include "01_single_gpu/loss.cuh"
#include "01_single_gpu/model.cuh"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/data/random.hpp"

namespace ddp::bench {
namespace {

constexpr int samples = 6;

Options small_net() {
  Options options;
  options.layers = {5, 7, 4, 3};
  options.activation = Activation::gelu;
  return options;
}

template <class T>
class Net {
 public:
  Net() {
    std::vector<T> inputs(samples * 5);
    const std::uint64_t numbers = random_stream(RandomUse::synthetic_data, 0);
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      inputs[i] = static_cast<T>(static_cast<float>(2 * uniform(1, numbers, i) - 1));
    }
    cuda::upload(inputs_.data(), std::span<const T>(inputs), stream_);
    const std::vector<std::int32_t> labels = {2, 0, 1, 1, 2, 0};
    cuda::upload(labels_.data(), std::span<const std::int32_t>(labels), stream_);
  }

  /// The gradient of one parameter, by the backward pass.
  std::vector<T> gradient(std::size_t parameter) {
    mean_loss();
    model_.backward(output_gradient_);
    return download(parameters().gradient(parameter));
  }
  std::vector<T> value(std::size_t parameter) { return download(parameters().value(parameter)); }

  /// The mean loss with one element of one parameter set to `value`, which stays.
  double mean_loss_at(std::size_t parameter, std::size_t element, T value) {
    T* where = parameters().value(parameter).data() + element;
    cuda::upload(where, std::span<const T>(&value, 1), stream_);
    return mean_loss();
  }

  const ParameterStore<T>& parameters() const { return model_.parameters(); }

 private:
  std::vector<T> download(std::span<T> part) {
    return cuda::download(part.data(), part.size(), stream_);
  }

  double mean_loss() {
    cuda::clear_async(scalars_.data(), 1, stream_);
    const Batch<T> batch{inputs_.data(), labels_.data(), nullptr, samples};
    const T* outputs = model_.forward(batch.inputs, batch.count);
    output_gradient_ = loss_.forward_backward(outputs, batch, samples, scalars_.data(), stream_);
    return static_cast<double>(cuda::download(scalars_.data(), 1, stream_)[0].loss_sum) / samples;
  }

  cuda::Stream stream_;
  Model<T> model_{small_net(), samples, stream_};
  Loss<T> loss_{LossKind::cross_entropy, 3, samples};
  cuda::DeviceBuffer<T> inputs_{samples * 5};
  cuda::DeviceBuffer<std::int32_t> labels_{samples};
  cuda::DeviceBuffer<StepScalars<T>> scalars_{1};
  const T* output_gradient_ = nullptr;
};

using Gradients = std::vector<std::vector<double>>;  // one vector a parameter

/// Largest error of the central differences with step h, over all elements of all parameters.
template <class T>
double largest_error(Net<T>& net, const Gradients& gradients, double h) {
  double worst = 0;
  for (std::size_t p = 0; p < gradients.size(); ++p) {
    const std::vector<T> start = net.value(p);
    for (std::size_t i = 0; i < start.size(); ++i) {
      const double above = net.mean_loss_at(p, i, start[i] + static_cast<T>(h));
      const double below = net.mean_loss_at(p, i, start[i] - static_cast<T>(h));
      net.mean_loss_at(p, i, start[i]);
      worst = std::max(worst, std::abs((above - below) / (2 * h) - gradients[p][i]));
    }
  }
  return worst;
}

void print_table() {
  Net<float> single;
  Net<double> exact;
  Gradients gradients;
  double largest = 0;
  for (std::size_t p = 0; p < exact.parameters().parameters().size(); ++p) {
    gradients.push_back(exact.gradient(p));
    for (const double g : gradients.back()) largest = std::max(largest, std::abs(g));
  }
  std::printf("largest gradient: %.3f\n", largest);
  std::printf("largest error of a central difference with step h, losses in fp32 and in fp64:\n");
  std::printf("%12s %12s %12s\n", "h", "fp32", "fp64");
  for (int exponent = 1; exponent < 40; exponent += 2) {
    const double h = std::ldexp(1.0, -exponent);
    std::printf("%12.2e %12.2e %12.2e\n", h, largest_error(single, gradients, h),
                largest_error(exact, gradients, h));
  }
}

}  // namespace
}  // namespace ddp::bench

int main() {
  try {
    ddp::bench::print_table();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 6;
  }
}
