#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace ddp {

/// FNV-1a with 64 bits (Fowler, Noll, Vo): a fingerprint of bytes. Equal bytes give equal numbers,
/// and different ones, unless someone wants to deceive, different numbers.
class Checksum {
 public:
  /// Goes on where the bytes before ended: two parts give what they give as one.
  void add(std::span<const std::byte> bytes);
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325;
};

/// 16 hexadecimal digits.
std::string checksum_text(std::uint64_t checksum);

}  // namespace ddp
