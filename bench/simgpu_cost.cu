// What a simulated GPU costs: per thread, per barrier, per shuffle, per operation of a stream, and
// what a matrix product costs beyond the BLAS library. All are measured in turns, many times, and
// the medians printed: one after the other they would see different states of the machine.
#include <cblas.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <functional>
#include <string>
#include <vector>

#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"

namespace ddp::bench {
namespace {

constexpr unsigned block_size = 256;

__global__ void sgd(float* weights, const float* gradients, float learning_rate, unsigned count) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) weights[index] -= learning_rate * gradients[index];
}

__global__ void only_guard(float* weights, unsigned count) {
  const unsigned index = blockIdx.x * blockDim.x + threadIdx.x;
  if (index < count) weights[index] = 0;
}

template <int barriers>
__global__ void barrier(float* values) {
  for (int i = 0; i < barriers; ++i) __syncthreads();
  values[blockIdx.x * blockDim.x + threadIdx.x] = 1;
}

template <int shuffles>
__global__ void shuffle(float* values) {
  float value = static_cast<float>(threadIdx.x);
  for (int i = 0; i < shuffles; ++i) value = __shfl_xor_sync(0xffffffffU, value, 1 << (i % 5));
  values[blockIdx.x * blockDim.x + threadIdx.x] = value;
}

__global__ void nothing() {}

double seconds(const std::function<void()>& work) {
  const auto start = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

/// One thing to measure: `run` does `count` of it. `subtract`, if there is one, is the index of the
/// measurement of the same work without it.
struct Measurement {
  std::string name;
  double count;
  std::function<void()> run;
  int subtract = -1;
  std::vector<double> times = {};
};

/// Takes turns and returns the median seconds for one, of each.
std::vector<double> measure(std::vector<Measurement>& all, int rounds) {
  for (Measurement& one : all) one.run();
  for (int round = 0; round < rounds; ++round) {
    for (Measurement& one : all) one.times.push_back(seconds(one.run));
  }
  std::vector<double> medians;
  for (const Measurement& one : all) {
    std::vector<double> values = one.times;
    if (one.subtract >= 0) {
      const Measurement& base = all[static_cast<std::size_t>(one.subtract)];
      for (std::size_t i = 0; i < values.size(); ++i) values[i] -= base.times[i];
    }
    medians.push_back(median(values) / one.count);
  }
  return medians;
}

void print_row(const std::string& name, double value, const char* unit, const char* target) {
  std::printf("| %-52s | %9.3f | %-5s | %-8s |\n", name.c_str(), value, unit, target);
}

void print_head(const char* what) {
  std::printf("| %-52s | %9s | %-5s | %-8s |\n", what, "median", "unit", "target");
  std::printf("|:%s|%s:|:------|:---------|\n", std::string(53, '-').c_str(),
              std::string(10, '-').c_str());
}

void measure_kernels(int rounds) {
  constexpr unsigned threads = 1 << 20, fewer = 1 << 16;
  const cuda::Stream stream;
  const cuda::DeviceBuffer<float> weights(threads), gradients(threads);
  cuda::clear_async(weights.data(), threads, stream);
  cuda::clear_async(gradients.data(), threads, stream);
  const cuda::LaunchConfig many{stream, threads / block_size, block_size};
  const cuda::LaunchConfig few{stream, fewer / block_size, block_size};
  constexpr int repeats = 16;  // barriers or shuffles of a thread
  std::vector<Measurement> all = {
      {"SGD, an element a thread", threads,
       [&] {
         cuda::launch<sgd>(many, weights.data(), gradients.data(), 0.1F, threads);
         stream.synchronize();
       }},
      {"a thread that its guard sends home", threads,
       [&] {
         cuda::launch<only_guard>(many, weights.data(), 0);
         stream.synchronize();
       }},
      {"a thread with one barrier", fewer,
       [&] {
         cuda::launch<barrier<1>>(few, weights.data());
         stream.synchronize();
       }},
      {"each further barrier of a thread", double{fewer} * repeats,
       [&] {
         cuda::launch<barrier<1 + repeats>>(few, weights.data());
         stream.synchronize();
       },
       2},
      {"a thread with one shuffle", fewer,
       [&] {
         cuda::launch<shuffle<1>>(few, weights.data());
         stream.synchronize();
       }},
      {"each further shuffle of a thread", double{fewer} * repeats,
       [&] {
         cuda::launch<shuffle<1 + repeats>>(few, weights.data());
         stream.synchronize();
       },
       4},
  };
  const char* const targets[] = {"<= 2", "<= 2", "<= 60", "<= 60", "", ""};
  const std::vector<double> medians = measure(all, rounds);
  print_head("threads");
  for (std::size_t i = 0; i < all.size(); ++i) {
    print_row(all[i].name, medians[i] * 1e9, "ns", targets[i]);
  }
}

void measure_streams(int rounds) {
  constexpr int operations = 10000;
  const cuda::Stream stream, other;
  const cuda::Event event;
  const cuda::DeviceBuffer<float> values(2);
  const cuda::PinnedBuffer<float> host(1);
  std::vector<Measurement> all = {
      {"a launch of one thread", operations,
       [&] {
         for (int i = 0; i < operations; ++i) cuda::launch<nothing>({stream, 1, 1});
         stream.synchronize();
       }},
      {"an event's record", operations,
       [&] {
         for (int i = 0; i < operations; ++i) event.record(stream);
         stream.synchronize();
       }},
      {"a copy of 4 bytes from pinned memory", operations,
       [&] {
         for (int i = 0; i < operations; ++i)
           cuda::copy_async(values.data(), host.data(), 1, stream);
         stream.synchronize();
       }},
      {"from launch to the end of cudaStreamSynchronize", operations / 100,
       [&] {
         for (int i = 0; i < operations / 100; ++i) {
           cuda::launch<nothing>({stream, 1, 1});
           stream.synchronize();
         }
       }},
      {"a hand-over from stream to stream by an event", operations / 100,
       [&] {
         for (int i = 0; i < operations / 200; ++i) {
           event.record(stream);
           cuda::wait_for(other, event);
           event.record(other);
           cuda::wait_for(stream, event);
         }
         stream.synchronize();
       }},
  };
  const char* const targets[] = {"<= 1", "<= 1", "<= 1", "", ""};
  const std::vector<double> medians = measure(all, rounds);
  print_head("operations of a stream");
  for (std::size_t i = 0; i < all.size(); ++i) {
    print_row(all[i].name, medians[i] * 1e6, "us", targets[i]);
  }
}

void measure_products(int rounds) {
  const cuda::Stream stream;
  const cuda::Blas blas(stream);
  print_head("cublasSgemm over cblas_sgemm");
  const std::vector<std::vector<int>> sizes = {{256, 784, 512}, {256, 512, 256}};
  for (const std::vector<int>& size : sizes) {
    const int m = size[0], k = size[1], n = size[2];
    const auto elements = [](int rows, int columns) {
      return static_cast<std::size_t>(rows) * static_cast<std::size_t>(columns);
    };
    const cuda::DeviceBuffer<float> a(elements(m, k)), b(elements(k, n)), c(elements(m, n));
    cuda::upload<float>(a.data(), std::vector<float>(a.size(), 0.5F), stream);
    cuda::upload<float>(b.data(), std::vector<float>(b.size(), 0.25F), stream);
    // Data of its own for each thread, so that neither takes it out of the other's cache.
    const std::vector<float> own_a(a.size(), 0.5F), own_b(b.size(), 0.25F);
    std::vector<float> own_c(c.size());
    const float one = 1, zero = 0;
    constexpr int products = 8;
    std::vector<Measurement> all = {
        {"cblas_sgemm", products,
         [&] {
           for (int i = 0; i < products; ++i) {
             cblas_sgemm(CblasColMajor, CblasNoTrans, CblasNoTrans, m, n, k, one, own_a.data(), m,
                         own_b.data(), k, zero, own_c.data(), m);
           }
         }},
        {"cublasSgemm", products,
         [&] {
           for (int i = 0; i < products; ++i) {
             cuda::check(cublasSgemm(blas, CUBLAS_OP_N, CUBLAS_OP_N, m, n, k, &one, a.data(), m,
                                     b.data(), k, &zero, c.data(), m));
           }
           stream.synchronize();
         }},
    };
    const std::vector<double> medians = measure(all, rounds);
    char shape[40];
    std::snprintf(shape, sizeof shape, " (%d, %d) by (%d, %d)", m, k, k, n);
    for (std::size_t i = 0; i < all.size(); ++i) {
      print_row(all[i].name + shape, medians[i] * 1e6, "us", "");
    }
    print_row(std::string("ratio") + shape, medians[1] / medians[0], "", "<= 1.05");
    print_row(std::string("GFLOP/s") + shape, 2e-9 * m * n * k / medians[1], "", "");
  }
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  const int rounds = argc > 1 ? std::atoi(argv[1]) : 51;
  try {
    ddp::bench::measure_kernels(rounds);
    ddp::bench::measure_streams(rounds);
    ddp::bench::measure_products(2 * rounds);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
