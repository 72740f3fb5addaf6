#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <span>

namespace ddp {

/// The sum over all ranks, on every rank: the one operation that data-parallel training adds to the
/// loop. Each algorithm of the course is one of these; all ranks end with the same bits.
///
/// Contract: the sum comes after the earlier and before the later work of `stream`, as any work
/// enqueued there would; but the call may block the host. All ranks make the same calls in the same
/// order with the same counts. A count of 0 is allowed and communicates nothing.
template <class T>
class AllReduce {
 public:
  virtual ~AllReduce() = default;

  /// output[i] = sum over the ranks of their input[i]; both in device memory and of one size. The
  /// input stays as it is, or is the output itself (in place); spans that overlap in part are
  /// refused with std::invalid_argument. Throws PeerError.
  virtual void sum(std::span<const T> input, std::span<T> output, cudaStream_t stream) = 0;

  /// How many bytes of `values` a sum communicates.
  virtual std::size_t bytes(std::span<const T> values) const { return values.size_bytes(); }

  /// In place.
  void sum(std::span<T> values, cudaStream_t stream) { sum(values, values, stream); }
};

}  // namespace ddp
