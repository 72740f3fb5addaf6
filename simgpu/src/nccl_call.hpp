#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "nccl.h"

namespace simgpu::nccl {

enum class Kind : std::int32_t {
  all_reduce,
  broadcast,
  reduce,
  all_gather,
  reduce_scatter,
  send,
  receive
};

/// What all ranks of a call must agree on. `other_rank` is the root, the peer, or unused (0); `op`
/// is unused (ncclSum) where nothing is reduced.
struct Signature {
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t op;
  std::int32_t other_rank;
  std::uint64_t count;
  bool operator==(const Signature&) const = default;
};

struct Call : Signature {
  const void* send;
  void* recv;
};

constexpr bool is_point_to_point(Kind kind) { return kind == Kind::send || kind == Kind::receive; }
constexpr bool is_reduction(Kind kind) {
  return kind == Kind::all_reduce || kind == Kind::reduce || kind == Kind::reduce_scatter;
}
const char* name(Kind kind);
/// For people: "ncclReduce(count 5, ncclFloat32, ncclSum, root 1)".
std::string text(const Signature& signature);

/// Bytes of one value; 0 for a type that is not simulated.
std::size_t size_of(ncclDataType_t type);

/// How much of the caller's memory a call reads and writes.
struct Extent {
  std::size_t send_bytes, recv_bytes;
};
Extent extent(const Call& call, int rank, int ranks);

/// Checks what can be checked without other ranks; says what is wrong, or nothing.
std::string wrong_argument(const Call& call, int rank, int ranks, int device);

/// Notes the text that ncclGetLastError gives and returns `result`.
ncclResult_t failure(ncclResult_t result, const std::string& text);

}  // namespace simgpu::nccl
