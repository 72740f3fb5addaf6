#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "simgpu/types.h"

namespace simgpu {

/// A piece of memory that CUDA knows: of a device, or pinned on the host.
struct Allocation {
  std::uintptr_t begin;
  std::size_t bytes;
  cudaMemoryType type;
  int device;
  std::uint64_t number;  // counts allocations, so that a report can name one
  int file = -1;         // of its pages, where other processes can map them; see shared_pages.hpp
  /// Whether `bytes` from `pointer` on lie inside.
  bool holds(const void* pointer, std::size_t bytes_) const {
    const std::size_t offset = reinterpret_cast<std::uintptr_t>(pointer) - begin;
    return offset <= bytes && bytes_ <= bytes - offset;
  }
};

/// The allocation that `pointer` points into; none for memory that CUDA does not know.
std::optional<Allocation> find_allocation(const void* pointer);

}  // namespace simgpu
