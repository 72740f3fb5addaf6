#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

namespace ddp::cuda {

class Event;
class Tracer;

/// The tracer that watches this process, or null, which is the rule. It is one for all, as NVTX's
/// is: launches and copies stand everywhere, and none of them should have to be handed a tracer.
/// Tracer's constructor sets it and its destructor puts back what was there.
inline constinit Tracer* current_tracer = nullptr;

/// What a trace says of a piece of work that was enqueued.
struct Operation {
  const char* kind;  ///< "kernel", "product", "copy" or "clear"
  const char* name;  ///< of static lifetime; of a kernel, the compiler's name of launch<...>
  std::size_t bytes =
      0;             ///< copied, cleared, or by a kernel read and written at least; 0: not known
  double flops = 0;  ///< 0: not known
  dim3 grid{0, 0, 0}, block{0, 0, 0};  ///< of a kernel
  int m = 0, n = 0, k = 0;             ///< of a product (m, k) by (k, n)
};

/// Of a copy of `bytes` bytes: its name gives the direction. `bytes` of the operation are those
/// copied; on the device they are read and written.
Operation copy_operation(const void* destination, const void* source, std::size_t bytes);

/// Of cublasSgemm or cublasDgemm, by the size of an element, on matrices (m, k) and (k, n): 2 m n k
/// operations, and each matrix moved once.
Operation product_operation(int m, int n, int k, std::size_t element_bytes);

/// Takes the time of what is enqueued to `stream` between its construction and end(), by an event
/// before and one behind it. Without a tracer it is a test of a pointer:
///
///     Timed timed(stream);
///     check(cudaMemsetAsync(destination, 0, bytes, stream));
///     if (timed) timed.end({.kind = "clear", .name = "clear", .bytes = bytes});
class Timed {
 public:
  explicit Timed(cudaStream_t stream) {
    if (current_tracer != nullptr) begin(stream);
  }
  /// The same in the stream of a cuBLAS handle.
  explicit Timed(cublasHandle_t blas) {
    if (current_tracer != nullptr) begin(blas);
  }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

  /// Whether anybody wants to know.
  explicit operator bool() const { return start_ != nullptr; }
  void end(const Operation& operation);

 private:
  void begin(cudaStream_t stream);
  void begin(cublasHandle_t blas);
  cudaStream_t stream_ = nullptr;
  Event* start_ = nullptr;
};

/// Labels what this thread enqueues in its lifetime: `const Range range("forward");`. Ranges nest,
/// "forward" around "layers.0". For a profiler they are NVTX ranges; a Tracer notes the path of
/// names, "forward/layers.0". `name` must outlive the range. `step` says which step the work is
/// for; left out, it is that of the range around this one. A range called "step" gives the step
/// alone and no part of the path.
class Range {
 public:
  explicit Range(const char* name, std::int64_t step = 0);
  Range(const Range&) = delete;
  Range& operator=(const Range&) = delete;
  ~Range();

 private:
  friend class Tracer;
  const char* name_;
  std::int64_t step_;
  const Range* outer_;
};

/// Names a stream for a profiler and for the current tracer: "compute".
void name_stream(cudaStream_t stream, const char* name);

}  // namespace ddp::cuda
