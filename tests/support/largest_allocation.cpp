#include "tests/support/largest_allocation.hpp"

#include <algorithm>
#include <cstdlib>
#include <new>

// In a file of its own: inlined into others, malloc behind new looks to g++ like a mismatched pair.

std::size_t ddp::largest_allocation = 0;

void* operator new(std::size_t size) {
  ddp::largest_allocation = std::max(ddp::largest_allocation, size);
  if (void* const memory = std::malloc(size)) return memory;
  throw std::bad_alloc();
}
void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return std::malloc(size); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
