#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "02_grad_accum/add.cuh"
#include "common/cuda/launch.hpp"

namespace ddp {

/// What one memory access of a thread can move: 16 bytes.
template <class T>
struct alignas(16) AddPack {
  static constexpr std::size_t size = 16 / sizeof(T);
  T at[size];
};

/// How many elements lie between the last 16-byte boundary and `pointer`.
template <class T>
std::size_t elements_past_boundary(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % 16 / sizeof(T);
}

/// A block takes 4 x 256 neighbouring packs, a thread every 256th of them. The elements before the
/// first whole pack and behind the last one are the first block's, one a thread.
inline constexpr unsigned packs_of_a_thread = 4;
inline constexpr unsigned packs_of_a_block = packs_of_a_thread * add_block;

template <class T>
__global__ void add_packs_kernel(const T* a, const T* b, T* sum, std::size_t count,
                                 std::size_t before, std::size_t packs) {
  using Pack = AddPack<T>;
  const auto* const a_packs = reinterpret_cast<const Pack*>(a + before);
  const auto* const b_packs = reinterpret_cast<const Pack*>(b + before);
  auto* const sum_packs = reinterpret_cast<Pack*>(sum + before);
  const std::size_t first = std::size_t{blockIdx.x} * packs_of_a_block + threadIdx.x;
  for (unsigned k = 0; k < packs_of_a_thread; ++k) {
    const std::size_t p = first + k * add_block;
    if (p >= packs) break;
    const Pack left = a_packs[p], right = b_packs[p];
    Pack total;
    for (std::size_t i = 0; i < Pack::size; ++i) total.at[i] = left.at[i] + right.at[i];
    sum_packs[p] = total;
  }
  const std::size_t inside = packs * Pack::size;
  if (first < count - inside) {
    const std::size_t i = first < before ? first : first + inside;
    sum[i] = a[i] + b[i];
  }
}

/// As add(), but a thread moves 16 bytes at a time. It needs addresses that are equally far from a
/// 16-byte boundary; others are left to add().
template <class T>
void add_packs(const T* a, const T* b, std::span<T> sum, cudaStream_t stream) {
  const std::size_t past = elements_past_boundary(sum.data());
  if (elements_past_boundary(a) != past || elements_past_boundary(b) != past) {
    add<T>(a, b, sum, stream);
    return;
  }
  constexpr std::size_t size = AddPack<T>::size;
  const std::size_t to_boundary = (size - past) % size;
  const std::size_t before = to_boundary < sum.size() ? to_boundary : sum.size();
  const std::size_t packs = (sum.size() - before) / size;
  const unsigned blocks =
      packs == 0 ? (sum.empty() ? 0 : 1) : cuda::blocks_for(packs, packs_of_a_block);
  cuda::launch<add_packs_kernel<T>>({stream, blocks, add_block}, a, b, sum.data(), sum.size(),
                                    before, packs);
}

}  // namespace ddp
