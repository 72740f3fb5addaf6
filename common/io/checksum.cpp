#include "common/io/checksum.hpp"

#include <fmt/core.h>

namespace ddp {

void Checksum::add(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    value_ = (value_ ^ static_cast<std::uint64_t>(byte)) * 0x100000001b3;
  }
}

std::string checksum_text(std::uint64_t checksum) { return fmt::format("{:016x}", checksum); }

}  // namespace ddp
