// Copies and memset: checked at the call, run by the stream.

#include <cstring>
#include <memory>
#include <vector>

#include "memory.hpp"
#include "sanitizer.hpp"
#include "simgpu/runtime_api.h"
#include "statistics.hpp"
#include "stream.hpp"

namespace simgpu {
namespace {

enum class Place { pageable, pinned, device };

/// Where `bytes` from `pointer` on lie; nothing if they run past the end of an allocation.
std::optional<Place> place_of(const void* pointer, std::size_t bytes) {
  const auto found = find_allocation(pointer);
  if (!found) return Place::pageable;
  if (!found->holds(pointer, bytes)) return std::nullopt;
  return found->type == cudaMemoryTypeDevice ? Place::device : Place::pinned;
}

/// Whether the direction that the caller names is the one that the pointers have.
bool fits(cudaMemcpyKind kind, Place to, Place from) {
  const bool to_device = to == Place::device, from_device = from == Place::device;
  switch (kind) {
    case cudaMemcpyHostToHost:
      return !to_device && !from_device;
    case cudaMemcpyHostToDevice:
      return to_device && !from_device;
    case cudaMemcpyDeviceToHost:
      return !to_device && from_device;
    case cudaMemcpyDeviceToDevice:
      return to_device && from_device;
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

struct CopyTask final : Task {
  CopyTask(void* to_, const void* from_, std::size_t bytes_)
      : to(to_), from(from_), bytes(bytes_) {}
  void run() override { std::memcpy(to, from, bytes); }
  void* to;
  const void* from;
  std::size_t bytes;
};

struct StagedCopyTask final : Task {
  StagedCopyTask(void* to_, const void* from, std::size_t bytes)
      : to(to_), staged(static_cast<const char*>(from), static_cast<const char*>(from) + bytes) {}
  void run() override { std::memcpy(to, staged.data(), staged.size()); }
  void* to;
  std::vector<char> staged;
};

enum class Host { goes_on, waits };

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                 cudaStream_t handle, Host host) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (kind < cudaMemcpyHostToHost || kind > cudaMemcpyDefault) {
    return report(cudaErrorInvalidMemcpyDirection);
  }
  if (bytes == 0) return cudaSuccess;
  if (to == nullptr || from == nullptr) return report(cudaErrorInvalidValue);
  const auto to_place = place_of(to, bytes), from_place = place_of(from, bytes);
  if (!to_place || !from_place || !fits(kind, *to_place, *from_place)) {
    return report(cudaErrorInvalidValue);
  }
  // Pageable memory is read before the call returns, and written before it returns. Pinned memory
  // is read and written when the copy runs.
  const bool inside_device = *to_place == Place::device && *from_place == Place::device;
  const bool waits = (host == Host::waits && !inside_device) || *to_place == Place::pageable;
  if (waits || *from_place == Place::pageable) ++counters().host_waits;
  std::unique_ptr<Task> task;
  if (*from_place == Place::pageable && host == Host::goes_on) {
    task = std::make_unique<StagedCopyTask>(to, from, bytes);
  } else {
    task = std::make_unique<CopyTask>(to, from, bytes);
  }
  const std::uint32_t number = enqueue_ordered(*stream, std::move(task));
  if (waits) {
    stream->wait_until(number);
    return report(stream->device.sticky);
  }
  return cudaSuccess;
}

cudaError_t set(void* pointer, int value, std::size_t bytes, cudaStream_t handle, Host host) {
  const auto [stream, error] = resolve(handle);
  if (error != cudaSuccess) return report(error);
  if (bytes == 0) return cudaSuccess;
  const auto place = place_of(pointer, bytes);
  if (!place || *place == Place::pageable) return report(cudaErrorInvalidValue);
  auto task = std::make_unique<FunctionTask>(
      [pointer, value, bytes] { std::memset(pointer, value, bytes); });
  const std::uint32_t number = enqueue_ordered(*stream, std::move(task));
  if (host == Host::waits && *place == Place::pinned) {
    ++counters().host_waits;
    stream->wait_until(number);
    return report(stream->device.sticky);
  }
  return cudaSuccess;
}

}  // namespace
}  // namespace simgpu

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  return simgpu::copy(to, from, bytes, kind, nullptr, simgpu::Host::waits);
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  return simgpu::copy(to, from, bytes, kind, stream, simgpu::Host::goes_on);
}

cudaError_t cudaMemset(void* pointer, int value, std::size_t bytes) {
  return simgpu::set(pointer, value, bytes, nullptr, simgpu::Host::waits);
}

cudaError_t cudaMemsetAsync(void* pointer, int value, std::size_t bytes, cudaStream_t stream) {
  return simgpu::set(pointer, value, bytes, stream, simgpu::Host::goes_on);
}
