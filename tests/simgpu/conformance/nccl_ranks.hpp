#pragma once

#include <nccl.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/stream.hpp"
#include "tests/simgpu/conformance/support.hpp"

/// What the conformance tests of NCCL share: ranks are threads with a device each.
namespace ddp::conformance {

inline void check_nccl(ncclResult_t result) {
  if (result == ncclSuccess) return;
  throw std::runtime_error(std::string(ncclGetErrorString(result)) + ": " +
                           ncclGetLastError(nullptr));
}

inline void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error("expected: " + what);
}

/// How many ranks can be tried here.
inline int most_ranks() {
  int devices = 0;
  cuda::check(cudaGetDeviceCount(&devices));
  return std::min(devices, 4);
}

/// Calls `body(rank)` in a thread for each rank, whose device is current; the first error is
/// thrown.
inline void in_threads(int ranks, const std::function<void(int)>& body) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(ranks));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < ranks; ++rank) {
    threads.emplace_back([&, rank] {
      try {
        cuda::check(cudaSetDevice(rank));
        body(rank);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "rank %d: %s\n", rank, error.what());
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

/// A rank with its communicator and a stream.
struct Rank {
  int rank;
  int ranks;
  ncclComm_t comm;
  const cuda::Stream& stream;
};

inline void with_ranks(int ranks, const std::function<void(const Rank&)>& body) {
  ncclUniqueId id{};
  check_nccl(ncclGetUniqueId(&id));
  in_threads(ranks, [&](int rank) {
    ncclComm_t comm = nullptr;
    check_nccl(ncclCommInitRank(&comm, ranks, id, rank));
    const cuda::Stream stream;
    body({rank, ranks, comm, stream});
    stream.synchronize();
    check_nccl(ncclCommDestroy(comm));
  });
}

// Values of each type, from small integers that all types hold exactly.

struct HalfBits {
  std::uint16_t bits;
  bool operator==(const HalfBits&) const = default;
};
struct Bfloat16Bits {
  std::uint16_t bits;
  bool operator==(const Bfloat16Bits&) const = default;
};

template <class T>
struct TypeOf;
template <>
struct TypeOf<float> {
  static constexpr ncclDataType_t value = ncclFloat32;
};
template <>
struct TypeOf<double> {
  static constexpr ncclDataType_t value = ncclFloat64;
};
template <>
struct TypeOf<HalfBits> {
  static constexpr ncclDataType_t value = ncclFloat16;
};
template <>
struct TypeOf<Bfloat16Bits> {
  static constexpr ncclDataType_t value = ncclBfloat16;
};
template <>
struct TypeOf<std::int32_t> {
  static constexpr ncclDataType_t value = ncclInt32;
};
template <>
struct TypeOf<std::int64_t> {
  static constexpr ncclDataType_t value = ncclInt64;
};
template <>
struct TypeOf<std::uint8_t> {
  static constexpr ncclDataType_t value = ncclUint8;
};

template <class T>
T encoded(int value) {
  if constexpr (std::is_same_v<T, HalfBits>) {
    if (value == 0) return {0};
    int exponent = 0;  // value = mantissa * 2^exponent, mantissa in [0.5, 1)
    const double mantissa = std::frexp(static_cast<double>(value), &exponent);
    const auto fraction = static_cast<unsigned>((mantissa * 2 - 1) * 1024);
    return {static_cast<std::uint16_t>((static_cast<unsigned>(exponent + 14) << 10) | fraction)};
  } else if constexpr (std::is_same_v<T, Bfloat16Bits>) {
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
    return {static_cast<std::uint16_t>(bits >> 16)};
  } else {
    return static_cast<T>(value);
  }
}

/// What rank r has at i: different for all ranks and nearly all places. At most 44, and the sum of
/// four ranks 110.
inline int value_at(int rank, std::size_t i) {
  return (rank + 1) * static_cast<int>(i % 11 + (i >> 16) % 2);
}

/// A device buffer with marked elements before and behind it, which nobody may change.
template <class T>
class Guarded {
 public:
  static constexpr std::size_t guard = 64;
  explicit Guarded(std::size_t size) : size_(size), host_(size + 2 * guard, encoded<T>(77)) {}
  T& operator[](std::size_t i) { return host_[guard + i]; }

  /// Copies the host's values to the device, which is then to be used.
  T* upload(cudaStream_t stream) {
    if (buffer_.size() == 0) buffer_ = cuda::DeviceBuffer<T>(host_.size());
    cuda::check(cudaMemcpyAsync(buffer_.data(), host_.data(), host_.size() * sizeof(T),
                                cudaMemcpyHostToDevice, stream));
    return buffer_.data() + guard;
  }

  /// Compares everything with the values that `expected` gives.
  void check(const std::string& what, cudaStream_t stream,
             const std::function<T(std::size_t)>& expected) const {
    std::vector<T> found(host_.size());
    cuda::check(cudaMemcpyAsync(found.data(), buffer_.data(), found.size() * sizeof(T),
                                cudaMemcpyDeviceToHost, stream));
    cuda::check(cudaStreamSynchronize(stream));
    for (std::size_t i = 0; i < found.size(); ++i) {
      const bool inside = i >= guard && i < guard + size_;
      if (found[i] == (inside ? expected(i - guard) : encoded<T>(77))) continue;
      throw std::runtime_error(what + ": " + std::to_string(size_) + " values: wrong " +
                               (inside ? "" : "guard ") + "element " +
                               std::to_string(static_cast<long>(i) - static_cast<long>(guard)));
    }
  }

 private:
  std::size_t size_;
  std::vector<T> host_;
  cuda::DeviceBuffer<T> buffer_{0};
};

}  // namespace ddp::conformance

template <>
struct Catch::StringMaker<ncclResult_t> {
  static std::string convert(ncclResult_t result) { return ncclGetErrorString(result); }
};
