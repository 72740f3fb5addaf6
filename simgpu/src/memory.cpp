#include "memory.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>

#include "quiet_mutex.hpp"
#include "sanitizer.hpp"
#include "settings.hpp"
#include "shared_pages.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"
#include "stream.hpp"

namespace simgpu {

std::atomic<int>& live_events();
namespace nccl {
std::size_t live_communicators();
}

namespace {

struct Table {
  QuietMutex mutex;
  std::map<std::uintptr_t, Allocation> by_end;  // key: last byte, so that lower_bound finds it
  std::uint64_t count = 0;
};

Table& table() {
  static Table& made = *new Table;
  return made;
}

std::atomic<bool> shares_memory = false;

/// Memory of exactly `bytes`, so that ASan sees its end; large pieces on huge pages, which is
/// faster. With NCCL those of a device go to pages that other ranks can map, but for the
/// sanitizers.
SharedPages raw_allocate(std::size_t bytes, cudaMemoryType type) {
  if (shares_memory && !sanitizer::any && type == cudaMemoryTypeDevice &&
      bytes >= least_shared_bytes) {
    if (const SharedPages pages = allocate_shared(bytes); pages.begin != nullptr) return pages;
  }
  constexpr std::size_t huge_page = std::size_t{2} << 20;
  const std::size_t alignment = bytes >= 2 * huge_page ? huge_page : 256;
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment, bytes) != 0) return {};
  if (alignment == huge_page) madvise(memory, bytes, MADV_HUGEPAGE);
  return {static_cast<std::byte*>(memory), -1};
}

void raw_free(const Allocation& allocation) {
  auto* const begin = reinterpret_cast<std::byte*>(allocation.begin);
  if (allocation.file < 0) return std::free(begin);
  free_shared({begin, allocation.file}, allocation.bytes);
}

cudaError_t allocate(void** pointer, std::size_t bytes, cudaMemoryType type) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  if (pointer == nullptr) return report(cudaErrorInvalidValue);
  *pointer = nullptr;
  if (bytes == 0) return cudaSuccess;
  const bool on_device = type == cudaMemoryTypeDevice;
  if (on_device) {
    const std::size_t before = device->bytes_in_use.fetch_add(bytes);
    if (before + bytes > settings().device_memory || before + bytes < before) {
      device->bytes_in_use -= bytes;
      return report(cudaErrorMemoryAllocation);
    }
  }
  const SharedPages memory = raw_allocate(bytes, type);
  if (memory.begin == nullptr) {
    if (on_device) device->bytes_in_use -= bytes;
    return report(cudaErrorMemoryAllocation);
  }
  ++counters().allocations;
  // Reads as NaN in every floating-point type. TSan would record each byte; large pieces stay as
  // the system gives them.
  if (!sanitizer::tsan || bytes < least_shared_bytes) std::memset(memory.begin, 0xff, bytes);
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.begin);
  QuietLock lock(table().mutex);
  table().by_end[begin + bytes - 1] = {begin,           bytes,           type,
                                       device->ordinal, ++table().count, memory.file};
  *pointer = memory.begin;
  return cudaSuccess;
}

cudaError_t release(void* pointer, cudaMemoryType type) {
  if (const auto [device, error] = current(); device == nullptr) return report(error);
  if (pointer == nullptr) return cudaSuccess;
  const auto found = find_allocation(pointer);
  if (!found || found->type != type || found->begin != reinterpret_cast<std::uintptr_t>(pointer)) {
    return report(cudaErrorInvalidValue);
  }
  Device& owner = *devices()[static_cast<std::size_t>(found->device)];
  owner.synchronize();  // as on a GPU: it waits for all that runs
  {
    QuietLock lock(table().mutex);
    if (table().by_end.erase(found->begin + found->bytes - 1) == 0) {
      return report(cudaErrorInvalidValue);  // another thread was faster
    }
  }
  if (type == cudaMemoryTypeDevice) owner.bytes_in_use -= found->bytes;
  raw_free(*found);
  ++counters().frees;
  return report(owner.sticky);
}

}  // namespace

bool share_device_memory() { return shares_memory = true; }

std::optional<Allocation> find_allocation(const void* pointer) {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  QuietLock lock(table().mutex);
  const auto found = table().by_end.lower_bound(address);
  if (found == table().by_end.end() || found->second.begin > address) return std::nullopt;
  return found->second;
}

void report_leaks_at_exit() {
  constexpr int most = 10;
  int listed = 0;
  QuietLock lock(table().mutex);
  for (const auto& [end, allocation] : table().by_end) {
    if (++listed > most) continue;
    std::fprintf(stderr, "simgpu: leak: %zu bytes of %s memory, device %d, allocation %llu\n",
                 allocation.bytes, allocation.type == cudaMemoryTypeDevice ? "device" : "pinned",
                 allocation.device, static_cast<unsigned long long>(allocation.number));
  }
  if (listed > most) std::fprintf(stderr, "simgpu: leak: and %d more\n", listed - most);
  for (const auto& device : devices()) {
    forget_closed_streams(*device);
    QuietLock streams_lock(device->mutex);
    const auto open = std::count_if(device->streams.begin(), device->streams.end(),
                                    [](const auto& stream) { return !stream->close_requested(); });
    if (open > 0) {
      std::fprintf(stderr, "simgpu: leak: %d streams of device %d\n", static_cast<int>(open),
                   device->ordinal);
    }
  }
  if (const int events = live_events(); events > 0) {
    std::fprintf(stderr, "simgpu: leak: %d events\n", events);
  }
  if (const std::size_t communicators = nccl::live_communicators(); communicators > 0) {
    std::fprintf(stderr, "simgpu: leak: %zu communicators\n", communicators);
  }
}

}  // namespace simgpu

using simgpu::current;
using simgpu::find_allocation;
using simgpu::report;

cudaError_t cudaMalloc(void** pointer, std::size_t bytes) {
  return simgpu::allocate(pointer, bytes, cudaMemoryTypeDevice);
}

cudaError_t cudaFree(void* pointer) { return simgpu::release(pointer, cudaMemoryTypeDevice); }

cudaError_t cudaMallocHost(void** pointer, std::size_t bytes) {
  return simgpu::allocate(pointer, bytes, cudaMemoryTypeHost);
}

cudaError_t cudaHostAlloc(void** pointer, std::size_t bytes, unsigned flags) {
  if (flags > cudaHostAllocPortable) return report(cudaErrorInvalidValue);
  return cudaMallocHost(pointer, bytes);
}

cudaError_t cudaFreeHost(void* pointer) { return simgpu::release(pointer, cudaMemoryTypeHost); }

cudaError_t cudaMemGetInfo(std::size_t* free_bytes, std::size_t* total_bytes) {
  const auto [device, error] = current();
  if (error != cudaSuccess) return report(error);
  if (free_bytes == nullptr || total_bytes == nullptr) return report(cudaErrorInvalidValue);
  *total_bytes = simgpu::settings().device_memory;
  *free_bytes = *total_bytes - device->bytes_in_use;
  return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* pointer) {
  if (const auto [device, error] = current(); error != cudaSuccess) return report(error);
  if (attributes == nullptr) return report(cudaErrorInvalidValue);
  void* address = const_cast<void*>(pointer);
  const auto found = find_allocation(pointer);
  if (!found) {
    *attributes = {cudaMemoryTypeUnregistered, -1, nullptr, address};
  } else {
    const bool pinned = found->type == cudaMemoryTypeHost;
    *attributes = {found->type, found->device, address, pinned ? address : nullptr};
  }
  return cudaSuccess;
}
