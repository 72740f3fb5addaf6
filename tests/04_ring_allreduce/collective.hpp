#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "03_naive_allreduce/all_reduce.hpp"
#include "04_ring_allreduce/make_all_reduce.hpp"
#include "common/cli/option_names.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/mpi/communicator.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/mpi_world.hpp"

namespace ddp {

/// One way to sum: an algorithm, and what MPI is given.
struct Way {
  AllReduceKind kind;
  bool device_pointers;

  std::string text() const {
    return std::string(name_of(kind)) + (device_pointers ? ", device buffers" : ", host buffers");
  }
};

/// All ways that work here: the tree needs 2^k ranks, device buffers a simulator or an MPI library
/// that knows CUDA.
inline std::vector<Way> ways(const mpi::Communicator& communicator) {
  std::vector<Way> all;
  const bool power_of_two = std::has_single_bit(static_cast<unsigned>(communicator.size()));
  const bool device_pointers = environment().simulated() || mpi::takes_device_pointers();
  for (const auto kind : {AllReduceKind::naive, AllReduceKind::ring, AllReduceKind::ring_segmented,
                          AllReduceKind::tree, AllReduceKind::mpi}) {
    if (kind == AllReduceKind::tree && !power_of_two) continue;
    all.push_back({kind, false});
    if (device_pointers) all.push_back({kind, true});
  }
  return all;
}

/// Values on the device between two guards that nobody may touch. The first value lies `offset`
/// elements behind a 256-byte boundary (at least 1).
template <class T>
class Guarded {
 public:
  Guarded(const std::vector<T>& values, std::size_t offset = 64)
      : offset_(offset), count_(values.size()), buffer_(offset + values.size() + behind) {
    std::vector<T> all(offset, guard);
    all.insert(all.end(), values.begin(), values.end());
    all.resize(buffer_.size(), guard);
    cuda::upload<T>(buffer_.data(), all, stream_);
  }

  std::span<T> span() const { return {buffer_.data() + offset_, count_}; }
  std::vector<T> values() const { return cuda::download(span().data(), count_, stream_); }
  bool guards_untouched() const {
    const auto all = cuda::download(buffer_.data(), buffer_.size(), stream_);
    const auto is_guard = [](T value) { return value == guard; };
    const auto begin = all.begin(), end = all.end();
    return std::all_of(begin, begin + static_cast<std::ptrdiff_t>(offset_), is_guard) &&
           std::all_of(end - static_cast<std::ptrdiff_t>(behind), end, is_guard);
  }

 private:
  static constexpr std::size_t behind = 64;
  static constexpr T guard = T(-987654);
  std::size_t offset_;
  std::size_t count_;
  cuda::DeviceBuffer<T> buffer_;
  cuda::Stream stream_;
};

/// The sum, in place or into a separate output, with a look at guards and input on the way.
template <class T>
std::vector<T> sum_of(AllReduce<T>& all_reduce, const std::vector<T>& values, bool in_place,
                      std::size_t offset = 64) {
  const cuda::Stream stream;
  const Guarded<T> input(values, offset);
  const Guarded<T> separate(std::vector<T>(in_place ? 0 : values.size(), T(NAN)), offset);
  const Guarded<T>& output = in_place ? input : separate;
  if (in_place) {
    all_reduce.sum(output.span(), stream);
  } else {
    all_reduce.sum(input.span(), output.span(), stream);
  }
  stream.synchronize();
  CHECK(input.guards_untouched());
  CHECK(separate.guards_untouched());
  if (!in_place) CHECK(input.values() == values);
  return output.values();
}

/// A vector of `count` values f(0), f(1), ...
template <class T, class Function>
std::vector<T> made_by(std::size_t count, const Function& function) {
  std::vector<T> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = static_cast<T>(function(i));
  return values;
}

/// What differs between two vectors, in words; empty where they are the same to the bit.
template <class T>
std::string difference(const std::vector<T>& found, const std::vector<T>& expected) {
  using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;
  if (found.size() != expected.size()) return "sizes differ";
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (std::bit_cast<Bits>(found[i]) != std::bit_cast<Bits>(expected[i])) {
      return "element " + std::to_string(i) + " is " + std::to_string(found[i]) + ", not " +
             std::to_string(expected[i]);
    }
  }
  return "";
}

/// Values of both signs and of many sizes, so that each order of addition has its own bits.
inline float uneven(int rank, std::size_t index) {
  auto x = static_cast<std::uint64_t>(index) * 0x9e3779b97f4a7c15u +
           static_cast<std::uint64_t>(rank + 1) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 30)) * 0x94d049bb133111ebu;
  x ^= x >> 31;
  const auto mantissa = static_cast<float>(static_cast<std::int64_t>(x >> 40) - (1 << 23));
  return std::ldexp(mantissa, static_cast<int>(x % 12) - 26);
}

}  // namespace ddp
