#include "common/io/checksum.hpp"

#include <string_view>

#include "tests/support/catch.hpp"

namespace ddp {
namespace {

std::uint64_t checksum_of(std::string_view text) {
  Checksum checksum;
  checksum.add(std::as_bytes(std::span(text)));
  return checksum.value();
}

// From the test vectors that the authors of FNV publish.
TEST_CASE("Checksum is FNV-1a with 64 bits") {
  CHECK(checksum_of("") == 0xcbf29ce484222325);
  CHECK(checksum_of("a") == 0xaf63dc4c8601ec8c);
  CHECK(checksum_of("foobar") == 0x85944171f73967e8);
}

TEST_CASE("Checksum of parts is that of the whole; bits count, not values") {
  Checksum parts;
  parts.add(std::as_bytes(std::span(std::string_view("foo"))));
  parts.add(std::as_bytes(std::span(std::string_view("bar"))));
  CHECK(parts.value() == 0x85944171f73967e8);
  const float zeros[2] = {0.0f, -0.0f};
  Checksum plus, minus;
  plus.add(std::as_bytes(std::span(zeros, 1)));
  minus.add(std::as_bytes(std::span(zeros + 1, 1)));
  CHECK(plus.value() != minus.value());
}

TEST_CASE("A checksum is printed as 16 digits") {
  CHECK(checksum_text(0x85944171f73967e8) == "85944171f73967e8");
  CHECK(checksum_text(0xab) == "00000000000000ab");
}

}  // namespace
}  // namespace ddp
