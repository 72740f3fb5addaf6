#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

namespace ddp {

template <class T>
struct WideOf {
  using type = T;
};
template <>
struct WideOf<__half> {
  using type = float;
};
template <>
struct WideOf<__nv_bfloat16> {
  using type = float;
};

/// The scalar in which numbers of type T are added up, and in which the parameters and gradients of
/// layers in T are kept: float for halves, which stage 06 brings; T itself otherwise.
template <class T>
using Wide = typename WideOf<T>::type;

}  // namespace ddp
