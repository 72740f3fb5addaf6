#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace ddp {

/// The same training in plain loops over std::vector<double>, as a textbook writes it. It shares no
/// code with the product; inputs, first weights and the order of the samples are handed in.
class ReferenceMlp {
 public:
  enum class Function { relu, gelu };
  enum class Error { cross_entropy, half_squared };

  std::vector<std::size_t> sizes;
  Function function = Function::relu;
  Error error = Error::cross_entropy;
  double momentum = 0.9;
  double weight_decay = 0;
  double clip_norm = 0;
  /// Weight (outputs, inputs), bias (outputs), of the first layer, then of the next.
  std::vector<std::vector<double>> values;
  std::vector<std::vector<double>> gradients;
  std::vector<std::vector<double>> velocities;

  /// Mean loss of a batch: `inputs` is (count, sizes.front()), `labels` (count). Half the squared
  /// distance is that to the one-hot row of the label. Fills `gradients`, of the mean.
  double loss_and_gradients(const std::vector<double>& inputs,
                            std::span<const std::int32_t> labels) {
    gradients.clear();
    for (const auto& value : values) gradients.emplace_back(value.size(), 0.0);
    double loss = 0;
    for (std::size_t sample = 0; sample < labels.size(); ++sample) {
      const double* x = inputs.data() + sample * sizes.front();
      loss += one_sample({x, x + sizes.front()}, static_cast<std::size_t>(labels[sample]));
    }
    const auto count = static_cast<double>(labels.size());
    for (auto& gradient : gradients) {
      for (double& g : gradient) g /= count;
    }
    return loss / count;
  }

  void update(double learning_rate) {
    const double norm = gradient_norm();
    const double scale = clip_norm > 0 && norm > clip_norm ? clip_norm / norm : 1;
    if (velocities.empty()) {
      for (const auto& value : values) velocities.emplace_back(value.size(), 0.0);
    }
    for (std::size_t p = 0; p < values.size(); ++p) {
      const double decay = p % 2 == 0 ? weight_decay : 0;
      for (std::size_t i = 0; i < values[p].size(); ++i) {
        double& v = velocities[p][i];
        v = momentum * v + scale * gradients[p][i] + decay * values[p][i];
        values[p][i] -= learning_rate * v;
      }
    }
  }

  double gradient_norm() const {
    double squares = 0;
    for (const auto& gradient : gradients) {
      for (const double g : gradient) squares += g * g;
    }
    return std::sqrt(squares);
  }

 private:
  // Forward and backward of one sample; adds to the gradients and returns the loss.
  double one_sample(const std::vector<double>& x, std::size_t label) {
    const std::size_t layers = sizes.size() - 1;
    std::vector<std::vector<double>> a = {x}, z = {{}};
    for (std::size_t l = 0; l < layers; ++l) {
      std::vector<double> sum = values[2 * l + 1];
      for (std::size_t o = 0; o < sizes[l + 1]; ++o) {
        sum[o] += dot(&values[2 * l][o * sizes[l]], a[l].data(), sizes[l]);
      }
      z.push_back(sum);
      if (l + 1 < layers) {
        for (double& s : sum) s = f(s);
      }
      a.push_back(sum);
    }
    std::vector<double> delta = z.back();
    const double loss =
        error == Error::cross_entropy ? cross_entropy(delta, label) : half_squared(delta, label);
    for (std::size_t l = layers; l-- > 0;) {
      std::vector<double> before(sizes[l], 0.0);
      for (std::size_t o = 0; o < sizes[l + 1]; ++o) {
        gradients[2 * l + 1][o] += delta[o];
        add_scaled(&gradients[2 * l][o * sizes[l]], delta[o], a[l].data(), sizes[l]);
        if (l > 0) add_scaled(before.data(), delta[o], &values[2 * l][o * sizes[l]], sizes[l]);
      }
      if (l == 0) break;
      for (std::size_t i = 0; i < before.size(); ++i) before[i] *= slope(z[l][i]);
      delta = before;
    }
    return loss;
  }

  // Four sums at a time: a single one would wait for its own addition each time.
  static double dot(const double* a, const double* b, std::size_t count) {
    double sums[4] = {0, 0, 0, 0};
    for (std::size_t i = 0; i < count; ++i) sums[i % 4] += a[i] * b[i];
    return sums[0] + sums[1] + sums[2] + sums[3];
  }
  static void add_scaled(double* to, double scale, const double* from, std::size_t count) {
    if (scale == 0) return;
    for (std::size_t i = 0; i < count; ++i) to[i] += scale * from[i];
  }

  // Each turns the outputs into the gradient of the loss.
  static double cross_entropy(std::vector<double>& outputs, std::size_t label) {
    const double largest = *std::max_element(outputs.begin(), outputs.end());
    double sum = 0;
    for (const double output : outputs) sum += std::exp(output - largest);
    const double log_sum = largest + std::log(sum);
    const double loss = log_sum - outputs[label];
    for (double& output : outputs) output = std::exp(output - log_sum);
    outputs[label] -= 1;
    return loss;
  }
  static double half_squared(std::vector<double>& outputs, std::size_t label) {
    outputs[label] -= 1;
    double squares = 0;
    for (const double output : outputs) squares += output * output;
    return squares / 2;
  }

  double f(double z) const {
    if (function == Function::relu) return std::max(z, 0.0);
    return z / 2 * std::erfc(-z / std::sqrt(2.0));
  }
  double slope(double z) const {
    if (function == Function::relu) return z > 0 ? 1 : 0;
    return std::erfc(-z / std::sqrt(2.0)) / 2 +
           z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  }
};

}  // namespace ddp
