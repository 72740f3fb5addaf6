#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "02_grad_accum/add.cuh"
#include "common/cuda/launch.hpp"

namespace ddp {

/// What a thread adds: 32 bytes, which are two accesses of 16, the most that one can move.
template <class T>
struct alignas(32) AddPack {
  static constexpr std::size_t size = 32 / sizeof(T);
  T at[size];
};

/// How many elements lie between the last place where a pack may begin and `pointer`.
template <class T>
std::size_t elements_past_boundary(const T* pointer) {
  return reinterpret_cast<std::uintptr_t>(pointer) % sizeof(AddPack<T>) / sizeof(T);
}

template <class T>
__global__ void add_packs_kernel(const AddPack<T>* a, const AddPack<T>* b, AddPack<T>* sum,
                                 std::size_t packs) {
  const std::size_t p = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (p >= packs) return;
  const AddPack<T> left = a[p], right = b[p];
  AddPack<T> total;
  for (std::size_t i = 0; i < AddPack<T>::size; ++i) total.at[i] = left.at[i] + right.at[i];
  sum[p] = total;
}

/// As add(), but a thread adds a pack. It needs addresses that are equally far from where a pack
/// may begin; others, and the few elements outside of whole packs, are left to add().
template <class T>
void add_packs(const T* a, const T* b, std::span<T> sum, cudaStream_t stream) {
  const std::size_t past = elements_past_boundary(sum.data());
  if (elements_past_boundary(a) != past || elements_past_boundary(b) != past) {
    add<T>(a, b, sum, stream);
    return;
  }
  constexpr std::size_t pack = AddPack<T>::size;
  const std::size_t before = std::min((pack - past) % pack, sum.size());
  const std::size_t packs = (sum.size() - before) / pack;
  const std::size_t end = before + packs * pack;
  add<T>(a, b, sum.first(before), stream);
  cuda::launch<add_packs_kernel<T>>({stream, cuda::blocks_for(packs, add_block), add_block},
                                    reinterpret_cast<const AddPack<T>*>(a + before),
                                    reinterpret_cast<const AddPack<T>*>(b + before),
                                    reinterpret_cast<AddPack<T>*>(sum.data() + before), packs);
  add<T>(a + end, b + end, sum.subspan(end), stream);
}

}  // namespace ddp
