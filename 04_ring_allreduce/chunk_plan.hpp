#pragma once

#include <algorithm>
#include <cstddef>

namespace ddp {

/// Where one chunk lies in a buffer, in elements.
struct Chunk {
  std::size_t offset = 0;
  std::size_t count = 0;

  bool operator==(const Chunk&) const = default;
};

/// Chunk `index` (0 to ranks - 1) of a buffer of `count` elements that is cut into one chunk a
/// rank. The chunks follow each other, cover the buffer and differ by at most one element; the
/// larger ones come first. With more ranks than elements the last ones are empty. 10 elements on 3
/// ranks:
///
///     0 1 2 3 | 4 5 6 | 7 8 9
///
/// A pure function of three numbers: every rank computes the whole plan for itself, and nobody has
/// to be told. In 64 bits, as a buffer may have more than 2^31 elements.
inline Chunk chunk_of(std::size_t count, int ranks, int index) {
  // [exercise 4.1] Cut `count` elements into `ranks` chunks; return offset and count of one.
  const auto parts = static_cast<std::size_t>(ranks);
  const auto earlier = static_cast<std::size_t>(index);  // chunks before this one
  const std::size_t least = count / parts;
  const std::size_t larger = count % parts;  // so many chunks have one element more
  return {earlier * least + std::min(earlier, larger), least + (earlier < larger ? 1 : 0)};
  // [/exercise]
}

/// The elements of a chunk.
template <class Span>
Span part(Span whole, Chunk chunk) {
  return whole.subspan(chunk.offset, chunk.count);
}

}  // namespace ddp
