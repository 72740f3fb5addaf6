#pragma once

#include <cuda_bf16.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>
#include <vector>

namespace ddp {

// A number format, by its definition: so many bits of mantissa with the one that is not stored, the
// exponent of its smallest number, its largest number.
struct Format {
  int bits, lowest;
  double largest;
};
template <class T>
inline constexpr Format format_of = {11, -24, 65504};
template <>
inline constexpr Format format_of<__nv_bfloat16> = {8, -133, 0x1.fep127};

inline double spacing_at(double x, const Format& format) {
  return std::ldexp(1.0, std::max(std::ilogb(x) - format.bits + 1, format.lowest));
}

// The number of the format that is nearest to x, an even one in the middle.
inline double nearest(double x, const Format& format) {
  if (x == 0 || !std::isfinite(x)) return x;
  const double spacing = spacing_at(x, format);
  const double rounded = std::nearbyint(x / spacing) * spacing;
  return std::abs(rounded) > format.largest ? std::copysign(HUGE_VAL, x) : rounded;
}

inline constexpr double ulp = 0x1p-24;  // the largest relative error of one rounding to fp32

// The same forward and backward pass in plain loops over doubles, rounded to the format where the
// design says so and nowhere else. The product adds in fp32: its sum of n products, which are
// exact, is off by at most n ulp of the sum of their absolute values, in whatever order. Where no
// number that is to be rounded is so near to the middle between two numbers of the format, both
// round alike, and the product must give these very bits.
class Reference {
 public:
  Reference(const Format& format, bool relu, std::vector<std::size_t> sizes,
            std::vector<std::vector<double>> values)
      : format_(format), relu_(relu), sizes_(std::move(sizes)), values_(std::move(values)) {
    for (auto& value : values_) round_all(value);
    for (const auto& value : values_) {
      gradients.emplace_back(value.size(), 0.0);
      sizes_of_terms.emplace_back(value.size(), 0.0);
    }
  }

  bool too_near = false;                            // to the middle between two numbers
  std::vector<double> outputs;                      // of all samples
  std::vector<std::vector<double>> gradients;       // exact sums
  std::vector<std::vector<double>> sizes_of_terms;  // sums of absolute values of their terms

  void one_sample(std::vector<double> inputs, std::vector<double> scaled_gradient) {
    round_all(inputs);
    std::vector<std::vector<double>> a = {inputs}, z = {{}};
    const std::size_t layers = sizes_.size() - 1;
    for (std::size_t l = 0; l < layers; ++l) {
      std::vector<double> sums, activated;
      for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
        double sum = 0, size = 0;
        for (std::size_t i = 0; i < sizes_[l]; ++i) {
          const double term = values_[2 * l][o * sizes_[l] + i] * a[l][i];
          sum += term;
          size += std::abs(term);
        }
        const double product = round(sum, static_cast<double>(sizes_[l]) * size);
        const double bias = values_[2 * l + 1][o];
        sums.push_back(nearest(product + bias, format_));  // in fp32 exact, or far from a middle
        // An erf and two products in fp32, each within a few roundings.
        activated.push_back(round(f(sums.back()), relu_ ? 0 : 8 * std::abs(sums.back())));
      }
      z.push_back(sums);
      a.push_back(activated);
    }
    outputs.insert(outputs.end(), z.back().begin(), z.back().end());

    std::vector<double> delta = scaled_gradient;
    round_all(delta);
    for (std::size_t l = layers; l-- > 0;) {
      for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
        add(2 * l + 1, o, delta[o]);
        for (std::size_t i = 0; i < sizes_[l]; ++i) {
          add(2 * l, o * sizes_[l] + i, delta[o] * a[l][i]);
        }
      }
      if (l == 0) break;
      std::vector<double> before;
      for (std::size_t i = 0; i < sizes_[l]; ++i) {
        double sum = 0, size = 0;
        for (std::size_t o = 0; o < sizes_[l + 1]; ++o) {
          const double term = delta[o] * values_[2 * l][o * sizes_[l] + i];
          sum += term;
          size += std::abs(term);
        }
        const double dx = round(sum, static_cast<double>(sizes_[l + 1]) * size);
        before.push_back(round(dx * slope(z[l][i]), relu_ ? 0 : 16 * std::abs(dx)));
      }
      delta = before;
    }
  }

 private:
  // `error`, in ulp: by how much the product's x may differ; 0 where it cannot.
  double round(double x, double error) {
    const double middle = (std::floor(x / spacing_at(x, format_)) + 0.5) * spacing_at(x, format_);
    if (error > 0 && x != 0 && std::abs(x - middle) <= error * ulp) too_near = true;
    return nearest(x, format_);
  }
  void round_all(std::vector<double>& values) const {
    for (double& value : values) value = nearest(value, format_);
  }
  void add(std::size_t parameter, std::size_t element, double term) {
    gradients[parameter][element] += term;
    sizes_of_terms[parameter][element] += std::abs(term);
  }
  double f(double z) const {
    return relu_ ? std::max(z, 0.0) : z / 2 * std::erfc(-z / std::sqrt(2));
  }
  double slope(double z) const {
    if (relu_) return z > 0 ? 1 : 0;
    return std::erfc(-z / std::sqrt(2)) / 2 +
           z * std::exp(-z * z / 2) / std::sqrt(2 * std::acos(-1.0));
  }

  Format format_;
  bool relu_;
  std::vector<std::size_t> sizes_;
  std::vector<std::vector<double>> values_;
};

}  // namespace ddp
