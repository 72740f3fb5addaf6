#pragma once

#include <algorithm>
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

/// A thread takes a line of four neighbouring packs, 64 bytes, as a CPU's cache does. (A GPU would
/// as soon have them apart, each beside those of 31 other threads; but its memory is so much faster
/// than any link that a ring does not notice.)
inline constexpr std::size_t packs_of_a_line = 4;

template <class T>
__global__ void add_lines_kernel(const AddPack<T>* a, const AddPack<T>* b, AddPack<T>* sum,
                                 std::size_t lines) {
  const std::size_t line = std::size_t{blockIdx.x} * add_block + threadIdx.x;
  if (line >= lines) return;
  for (std::size_t p = line * packs_of_a_line; p < (line + 1) * packs_of_a_line; ++p) {
    const AddPack<T> left = a[p], right = b[p];
    AddPack<T> total;
    for (std::size_t i = 0; i < AddPack<T>::size; ++i) total.at[i] = left.at[i] + right.at[i];
    sum[p] = total;
  }
}

/// As add(), but a thread moves 16 bytes at a time. It needs addresses that are equally far from a
/// 16-byte boundary; others, and the few elements outside of whole lines, are left to add().
template <class T>
void add_packs(const T* a, const T* b, std::span<T> sum, cudaStream_t stream) {
  const std::size_t past = elements_past_boundary(sum.data());
  if (elements_past_boundary(a) != past || elements_past_boundary(b) != past) {
    add<T>(a, b, sum, stream);
    return;
  }
  constexpr std::size_t pack = AddPack<T>::size;
  constexpr std::size_t line = packs_of_a_line * pack;
  const std::size_t before = std::min((pack - past) % pack, sum.size());
  const std::size_t lines = (sum.size() - before) / line;
  const std::size_t end = before + lines * line;
  add<T>(a, b, sum.first(before), stream);
  cuda::launch<add_lines_kernel<T>>({stream, cuda::blocks_for(lines, add_block), add_block},
                                    reinterpret_cast<const AddPack<T>*>(a + before),
                                    reinterpret_cast<const AddPack<T>*>(b + before),
                                    reinterpret_cast<AddPack<T>*>(sum.data() + before), lines);
  add<T>(a + end, b + end, sum.subspan(end), stream);
}

}  // namespace ddp
