// The simulator under load: many streams, events and launches on eight devices from eight threads,
// then everything created and destroyed many times. Memory, threads and results are checked.
//
//   simgpu_load [launches (1000000) [rounds (1000) [unchecked]]]
//
// With `unchecked` memory is only printed: a sanitizer keeps memory for its own ends.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/blas.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/launch.hpp"
#include "common/cuda/stream.hpp"

namespace ddp::load {
namespace {

constexpr int devices = 8, streams_per_device = 8;
constexpr int events_per_device = 1250;  // 10,000 in all

__global__ void count(int* counter) { *counter += 1; }

void expect(bool condition, const std::string& what) {
  if (!condition) throw std::runtime_error(what);
}

double resident_mebibytes() {
  long pages = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> pages >> resident;
  return static_cast<double>(resident * sysconf(_SC_PAGESIZE)) / (1 << 20);
}

/// Bytes that malloc has given out, which a leak shows in to the byte.
double heap_kibibytes() {
  const struct mallinfo2 heap = mallinfo2();
  return static_cast<double>(heap.uordblks + heap.hblkhd) / 1024;
}

long running_threads() {
  const std::filesystem::directory_iterator tasks("/proc/self/task");
  return std::distance(begin(tasks), end(tasks));
}

/// The threads of destroyed streams end on their own; this gives them a moment.
void wait_until_threads_are(long count) {
  for (int i = 0; i < 1000 && running_threads() > count; ++i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

/// One device's streams, events and counters; each stream owns a counter.
class DeviceLoad {
 public:
  DeviceLoad()
      : streams_(streams_per_device), events_(events_per_device), counters_(streams_per_device) {
    cuda::clear_async(counters_.data(), counters_.size(), streams_[0]);
    streams_[0].synchronize();
  }

  /// Launches round robin. Each event in turn is recorded in one stream, waited for by the next one
  /// and, when its turn comes again, by the host: so no queue grows beyond a lap of the events.
  void launch(int launches) {
    const int launches_per_event = std::max(1, launches / (4 * events_per_device));
    for (int i = 0; i < launches; ++i) {
      const std::size_t stream = static_cast<std::size_t>(i % streams_per_device);
      cuda::launch<count>({streams_[stream], 1, 1}, counters_.data() + stream);
      if (i % launches_per_event != 0) continue;
      const cuda::Event& event =
          events_[static_cast<std::size_t>(next_event_++ % events_per_device)];
      event.synchronize();
      event.record(streams_[stream]);
      cuda::wait_for(streams_[(stream + 1) % streams_per_device], event);
    }
    launched_ += launches;
  }

  void check_counters() {
    for (const cuda::Stream& stream : streams_) stream.synchronize();
    const std::vector<int> seen =
        cuda::download(counters_.data(), counters_.size(), streams_.front());
    int total = 0;
    for (const int counter : seen) total += counter;
    expect(total == launched_, "launches were lost: " + std::to_string(total) + " of " +
                                   std::to_string(launched_) + " were counted");
  }

 private:
  std::vector<cuda::Stream> streams_;
  std::vector<cuda::Event> events_;
  cuda::DeviceBuffer<int> counters_;
  int next_event_ = 0;
  int launched_ = 0;
};

/// Calls `work(device)` on one thread a device, that device being current.
template <class Work>
void on_every_device(const Work& work) {
  std::vector<std::thread> threads;
  std::vector<std::exception_ptr> errors(devices);
  for (int device = 0; device < devices; ++device) {
    threads.emplace_back([&work, device, &error = errors[static_cast<std::size_t>(device)]] {
      try {
        cuda::check(cudaSetDevice(device));
        work(device);
      } catch (...) {
        error = std::current_exception();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void report(const char* what, double before, double after) {
  std::printf("%-44s %8.1f MiB before, %8.1f MiB after\n", what, before, after);
}

void launch_many(int launches, bool checked) {
  const int each = launches / devices;
  std::vector<double> before(devices), after(devices);
  std::atomic<int> warm{0};
  on_every_device([&](int device) {
    DeviceLoad load;
    load.launch(each / 10);  // the queues and the allocator reach their size
    load.check_counters();
    ++warm;
    while (warm < devices) std::this_thread::yield();
    before[static_cast<std::size_t>(device)] = resident_mebibytes();
    load.launch(each - each / 10);
    load.check_counters();
    after[static_cast<std::size_t>(device)] = resident_mebibytes();
  });
  report("launches on 64 streams with 10000 events:", before.front(), after.front());
  if (checked) expect(after.front() - before.front() < 32, "memory grows with the launches");
}

void create_and_destroy() {
  const std::vector<cuda::Stream> streams(4);
  const std::vector<cuda::Event> events(4);
  const cuda::DeviceBuffer<int> counter(1);
  const cuda::PinnedBuffer<int> result(1);
  const cuda::DeviceBuffer<float> large(1 << 16);
  cublasHandle_t blas = nullptr;
  cuda::check(cublasCreate(&blas));
  cuda::check(cublasSetStream(blas, streams[0]));
  cuda::clear_async(counter.data(), 1, streams[0]);
  for (std::size_t i = 0; i < streams.size(); ++i) {
    cuda::launch<count>({streams[i], 1, 1}, counter.data());
    events[i].record(streams[i]);
    cuda::wait_for(streams[(i + 1) % streams.size()], events[i]);
  }
  cuda::copy_async(result.data(), counter.data(), 1, streams[0]);
  streams[0].synchronize();
  cuda::check(cublasDestroy(blas));
  expect(result[0] == 4, "a round counted " + std::to_string(result[0]) + ", expected 4");
}

void create_and_destroy_many(int rounds, bool checked) {
  const auto repeat = [](int times) {
    for (int i = 0; i < times; ++i) create_and_destroy();
  };
  const long threads = running_threads();
  repeat(rounds / 10);
  wait_until_threads_are(threads);
  const double before = resident_mebibytes(), heap_before = heap_kibibytes();
  std::size_t free_before = 0, free_after = 0, total = 0;
  cuda::check(cudaMemGetInfo(&free_before, &total));
  repeat(rounds - rounds / 10);
  cuda::check(cudaMemGetInfo(&free_after, &total));
  wait_until_threads_are(threads);
  const double after = resident_mebibytes(), heap_after = heap_kibibytes();
  report("everything created and destroyed:", before, after);
  std::printf("%-44s %8.1f KiB before, %8.1f KiB after\n", "the heap:", heap_before, heap_after);
  expect(free_before == free_after, "device memory leaks");
  if (!checked) return;
  expect(after - before < 8, "memory grows with what is created and destroyed");
  // Threads that end keep a few blocks in their caches; a leak of 72 bytes a round is more.
  expect(heap_after - heap_before < 64, "the heap grows with what is created and destroyed");
}

}  // namespace
}  // namespace ddp::load

int main(int argc, char** argv) {
  const int launches = argc > 1 ? std::atoi(argv[1]) : 1000000;
  const int rounds = argc > 2 ? std::atoi(argv[2]) : 1000;
  const bool checked = argc <= 3;
  try {
    const long threads_before = ddp::load::running_threads();
    ddp::load::launch_many(launches, checked);
    ddp::load::create_and_destroy_many(rounds, checked);
    ddp::load::wait_until_threads_are(threads_before);
    const long threads_after = ddp::load::running_threads();
    std::printf("%-44s %8ld before, %8ld after\n", "threads:", threads_before, threads_after);
    if (checked) ddp::load::expect(threads_after <= threads_before, "threads are left");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
