#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/run/step_scalars.hpp"
#include "tests/support/catch.hpp"

namespace ddp {

/// Values in device memory with guard cells on both sides. read() fails the test if a kernel has
/// written to one of these.
template <class T>
class DeviceValues {
 public:
  explicit DeviceValues(const std::vector<T>& values)
      : count_(values.size()), buffer_(count_ + 2 * guards) {
    std::vector<T> all(guards, guard);
    all.insert(all.end(), values.begin(), values.end());
    all.resize(buffer_.size(), guard);
    cuda::upload(buffer_.data(), std::span<const T>(all), stream_);
  }
  DeviceValues(std::size_t count, T value) : DeviceValues(std::vector<T>(count, value)) {}

  T* data() const { return buffer_.data() + guards; }
  std::span<T> span() const { return {data(), count_}; }

  /// After the work in `stream`.
  std::vector<T> read(const cuda::Stream& stream) const {
    const std::vector<T> all = cuda::download(buffer_.data(), buffer_.size(), stream);
    const auto is_guard = [](T value) { return value == guard; };
    CHECK(std::all_of(all.begin(), all.begin() + guards, is_guard));
    CHECK(std::all_of(all.end() - guards, all.end(), is_guard));
    return {all.begin() + guards, all.end() - guards};
  }

 private:
  static constexpr std::ptrdiff_t guards = 64;
  static inline const T guard = T(77);
  cuda::Stream stream_;
  std::size_t count_;
  cuda::DeviceBuffer<T> buffer_;
};

/// A step's scalars in device memory, all zero at first.
template <class T>
class DeviceScalars {
 public:
  DeviceScalars() : buffer_(1) {
    cuda::clear_async(buffer_.data(), 1, stream_);
    stream_.synchronize();
  }
  StepScalars<T>* data() const { return buffer_.data(); }
  StepScalars<T> read(const cuda::Stream& stream) const {
    return cuda::download(buffer_.data(), 1, stream).front();
  }
  void write(const StepScalars<T>& scalars) const {
    cuda::upload(buffer_.data(), std::span<const StepScalars<T>>(&scalars, 1), stream_);
  }

 private:
  cuda::Stream stream_;
  cuda::DeviceBuffer<StepScalars<T>> buffer_;
};

template <class T>
std::vector<T> download(std::span<T> values, const cuda::Stream& stream) {
  return cuda::download(values.data(), values.size(), stream);
}

/// Expected values in the scalar of the test.
template <class T>
std::vector<T> as(const std::vector<double>& values) {
  std::vector<T> result;
  for (const double value : values) result.push_back(static_cast<T>(value));
  return result;
}

/// Every element within `roundings` units in the last place, of numbers around `scale`.
template <class T>
void check_close(const std::vector<T>& actual, const std::vector<double>& expected,
                 double roundings, double scale = 1) {
  REQUIRE(actual.size() == expected.size());
  const double bound = roundings * scale * static_cast<double>(std::numeric_limits<T>::epsilon());
  for (std::size_t i = 0; i < actual.size(); ++i) {
    INFO("element " << i);
    CHECK(std::abs(static_cast<double>(actual[i]) - expected[i]) <= bound);
  }
}

}  // namespace ddp
