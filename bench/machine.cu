// What this machine's device can do at its best, for `./course trace` to compare with: copies,
// a kernel that only moves memory, matrix products, a launch. Sizes are large enough not to measure
// the launch. All are measured in turns, and the medians are printed and written as JSON.
//
// Usage: machine FILE.json [ROUNDS]

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <functional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"

namespace ddp::bench {
namespace {

// y = a x + y, four neighbours a thread: two reads and a write of 16 bytes.
__global__ void axpy_kernel(float a, const float4* x, float4* y, std::size_t count) {
  const std::size_t i = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const float4 left = x[i], right = y[i];
  y[i] = {a * left.x + right.x, a * left.y + right.y, a * left.z + right.z, a * left.w + right.w};
}

__global__ void nothing_kernel() {}

/// One thing to measure: `run` enqueues `amount` of it, in bytes, operations or launches.
struct Measurement {
  std::string key;  // in the file
  std::string name;
  double amount;
  std::function<void()> run;
  std::vector<double> seconds = {};

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    return sorted[sorted.size() / 2];
  }
};

cublasStatus_t gemm(cublasHandle_t blas, int m, int n, int k, const float* a, const float* b,
                    float* c) {
  const float one = 1, zero = 0;
  return cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}
cublasStatus_t gemm(cublasHandle_t blas, int m, int n, int k, const double* a, const double* b,
                    double* c) {
  const double one = 1, zero = 0;
  return cublasDgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a, m, b, k, &zero, c, m);
}

template <class T>
struct Matrices {
  static constexpr std::size_t most = 1024 * 1024;
  explicit Matrices(const cuda::Stream& stream) : a(most), b(most), c(most) {
    cuda::upload<T>(a.data(), std::vector<T>(most, T(0.5)), stream);
    cuda::upload<T>(b.data(), std::vector<T>(most, T(0.25)), stream);
  }
  cuda::DeviceBuffer<T> a, b, c;
};

template <class T>
Measurement product(const std::string& precision, int m, int n, int k, const cuda::Blas& blas,
                    const Matrices<T>& matrices) {
  const std::string size = std::to_string(m) + "x" + std::to_string(n) + "x" + std::to_string(k);
  constexpr int products = 4;
  return {
      precision + "_" + size + "_flops", "product " + size + " in " + precision,
      2.0 * products * m * n * k, [&blas, &matrices, m, n, k] {
        for (int i = 0; i < products; ++i) {
          cuda::check(gemm(blas, m, n, k, matrices.a.data(), matrices.b.data(), matrices.c.data()));
        }
      }};
}

double milliseconds_of_host(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  const auto taken = std::chrono::steady_clock::now() - start;
  return std::chrono::duration<double, std::milli>(taken).count();
}

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += c;
  }
  return result + '"';
}

class Report {
 public:
  explicit Report(const std::string& path) : path_(path), file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) fail();
  }
  Report(const Report&) = delete;
  Report& operator=(const Report&) = delete;
  ~Report() {
    if (file_ != nullptr) std::fclose(file_);
  }

  void add(const std::string& key, const std::string& value) {
    std::fprintf(file_, "%s\"%s\": %s", first_ ? "{\n  " : ",\n  ", key.c_str(), value.c_str());
    first_ = false;
  }
  void add(const std::string& key, double value) {
    char text[40];
    std::snprintf(text, sizeof text, "%.6g", value);
    add(key, std::string(text));
  }
  void close() {
    const bool written = std::fprintf(file_, "\n}\n") > 0 && std::ferror(file_) == 0;
    if (std::fclose(std::exchange(file_, nullptr)) != 0 || !written) fail();
  }

 private:
  [[noreturn]] void fail() const {
    throw std::runtime_error(path_ + ": cannot be written: " + std::strerror(errno));
  }
  std::string path_;
  std::FILE* file_;
  bool first_ = true;
};

void measure(const std::string& path, int rounds) {
  Report report(path);  // before the work, so that a bad path shows early
  cudaDeviceProp properties{};
  int device = 0;
  cuda::check(cudaGetDevice(&device));
  cuda::check(cudaGetDeviceProperties(&properties, device));
  const bool simulated = std::string(properties.name).starts_with("Simulated");
  std::printf("%s: medians of %d rounds%s\n\n", properties.name, rounds,
              simulated ? "; simulated: the CPU's numbers, not those of a GPU" : "");

  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  constexpr std::size_t count = std::size_t{16} << 20, bytes = count * sizeof(float);
  const cuda::DeviceBuffer<float> x(count), y(count);
  const cuda::PinnedBuffer<float> host(count);
  std::fill_n(host.data(), count, 1.0F);
  cuda::clear_async(x.data(), count, stream);
  cuda::clear_async(y.data(), count, stream);
  const Matrices<float> floats(stream);
  const Matrices<double> doubles(stream);
  constexpr int launches = 1000;

  std::vector<Measurement> all = {
      {"copy_device_bytes", "copy on the device, read and written", 2.0 * bytes,
       [&] { cuda::copy_async(y.data(), x.data(), count, stream); }},
      {"copy_host_bytes", "copy from pinned host memory", bytes,
       [&] { cuda::copy_async(x.data(), host.data(), count, stream); }},
      {"kernel_bytes", "kernel y = a x + y, read and written", 3.0 * bytes,
       [&] {
         cuda::launch<axpy_kernel>({stream, cuda::blocks_for(count / 4, 256), 256}, 0.5F,
                                   reinterpret_cast<const float4*>(x.data()),
                                   reinterpret_cast<float4*>(y.data()), count / 4);
       }},
      product("fp32", 1024, 1024, 1024, blas, floats),
      product("fp32", 256, 512, 784, blas, floats),
      product("fp64", 1024, 1024, 1024, blas, doubles),
      product("fp64", 256, 512, 784, blas, doubles),
      {"launches", "launches, one behind the other", launches,
       [&] {
         for (int i = 0; i < launches; ++i) cuda::launch<nothing_kernel>({stream, 1, 1});
       }},
  };
  const cuda::Event start, stop;
  std::vector<double> round_trips;
  for (int round = 0; round <= rounds; ++round) {
    for (Measurement& one : all) {
      start.record(stream);
      one.run();
      stop.record(stream);
      stop.synchronize();
      if (round > 0) one.seconds.push_back(cuda::seconds_between(start, stop));  // 0 warms up
    }
    round_trips.push_back(milliseconds_of_host([&] {
      cuda::launch<nothing_kernel>({stream, 1, 1});
      stream.synchronize();
    }));
  }
  std::sort(round_trips.begin(), round_trips.end());
  const double round_trip = round_trips[round_trips.size() / 2] * 1e-3;

  report.add("device", quoted(properties.name));
  report.add("simulated", std::string(simulated ? "true" : "false"));
  double best[2] = {0, 0};  // of a product, in fp32 and in fp64
  for (const Measurement& one : all) {
    const double rate = one.amount / one.median();
    const bool is_launch = one.key == "launches";
    const char* const unit = one.name.starts_with("product") ? "GFLOP/s" : "GB/s";
    std::printf("%-38s %10.2f %s\n", one.name.c_str(), is_launch ? 1e6 / rate : rate * 1e-9,
                is_launch ? "us each" : unit);
    report.add(is_launch ? "launch_seconds" : one.key, is_launch ? 1 / rate : rate);
    if (one.key.starts_with("fp32")) best[0] = std::max(best[0], rate);
    if (one.key.starts_with("fp64")) best[1] = std::max(best[1], rate);
  }
  std::printf("%-38s %10.2f us\n", "a launch until the host has waited", round_trip * 1e6);
  report.add("round_trip_seconds", round_trip);
  report.add("fp32_flops", best[0]);
  report.add("fp64_flops", best[1]);
  report.close();
  std::printf("\nwritten to %s\n", path.c_str());
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  if (argc < 2 || argc > 3) {
    std::fprintf(stderr, "usage: machine FILE.json [ROUNDS]\n");
    return 2;
  }
  try {
    ddp::bench::measure(argv[1], argc > 2 ? std::max(1, std::atoi(argv[2])) : 21);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "error: %s\n", error.what());
    return 1;
  }
}
