#include "common/data/idx.hpp"

#include <filesystem>
#include <string>

#include "common/errors.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/largest_allocation.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

// Ten images of 28 x 28: pixel i of the file is i mod 251, which no shift by a row leaves as it is.
Bytes ten_images() {
  Bytes pixels(10 * 28 * 28);
  for (std::size_t index = 0; index < pixels.size(); ++index) {
    pixels[index] = static_cast<std::uint8_t>(index % 251);
  }
  return idx_bytes(0x803, {10, 28, 28}, pixels);
}

Bytes text_bytes(const std::string& text) { return Bytes(text.begin(), text.end()); }

// The message with which the reader refuses these bytes as images; it must begin with the path.
std::string refusal(const Bytes& bytes) {
  const TemporaryFolder folder;
  const std::filesystem::path path = folder / "images";
  write_file(path, bytes);
  const std::string message = error_of<InputError>([&] { read_idx_images(path); });
  if (!message.starts_with(path.string() + ": ")) return "no path in: " + message;
  return message.substr(path.string().size() + 2);
}

void require_ten_images(const IdxImages& images) {
  REQUIRE(images.count == 10);
  REQUIRE(images.rows == 28);
  REQUIRE(images.columns == 28);
  REQUIRE(images.pixels.size() == 7840);
  for (std::size_t index = 0; index < 7840; ++index) REQUIRE(images.pixels[index] == index % 251);
}

TEST_CASE("IDX images are read from a plain file, and from gzip under any name") {
  const TemporaryFolder folder;
  write_file(folder / "plain", ten_images());
  write_file(folder / "plain.gz", ten_images());
  write_file(folder / "packed", gzip(ten_images()));
  write_file(folder / "packed.gz", gzip(ten_images()));
  for (const char* name : {"plain", "plain.gz", "packed", "packed.gz"}) {
    INFO(name);
    require_ten_images(read_idx_images(folder / name));
  }
}

TEST_CASE("IDX sizes are big-endian and rows come before columns") {
  const TemporaryFolder folder;
  write_file(folder / "images", idx_bytes(0x803, {258, 2, 3}, Bytes(258 * 6, 9)));
  const IdxImages images = read_idx_images(folder / "images");
  CHECK(images.count == 258);
  CHECK(images.rows == 2);
  CHECK(images.columns == 3);
  write_file(folder / "labels", idx_bytes(0x801, {4}, Bytes{3, 0, 255, 7}));
  CHECK(read_idx_labels(folder / "labels") == Bytes{3, 0, 255, 7});
}

TEST_CASE("DA-01 (a): a damaged or cut gzip file is called that") {
  CHECK_THAT(refusal({0x1f, 0x8b, 0x08, 0x08}), Contains("gzip"));
  const Bytes whole = gzip(ten_images());
  CHECK_THAT(refusal(Bytes(whole.begin(), whole.end() - 20)), Contains("gzip"));
  CHECK_THAT(refusal(Bytes(whole.begin(), whole.end() - 1)), Contains("gzip"));
  Bytes altered = whole;
  altered[altered.size() - 6] ^= 1;  // in the check sum of the data
  CHECK_THAT(refusal(altered), Contains("gzip"));
}

TEST_CASE("DA-01 (b): a web page instead of the file") {
  CHECK(refusal(text_bytes("<!DOCTYPE html>")) == "bad magic 0x3c21444f, expected 0x00000803");
  CHECK(refusal(gzip(text_bytes("<!DOCTYPE html>"))) ==
        "bad magic 0x3c21444f, expected 0x00000803");
}

TEST_CASE("DA-01 (c): a little-endian header, and labels where images should be") {
  CHECK(refusal({0x03, 0x08, 0x00, 0x00, 10, 0, 0, 0, 28, 0, 0, 0, 28, 0, 0, 0}) ==
        "bad magic 0x03080000, expected 0x00000803");
  CHECK(refusal(idx_bytes(0x801, {4}, Bytes(4))) == "bad magic 0x00000801, expected 0x00000803");
  const TemporaryFolder folder;
  write_file(folder / "labels", ten_images());
  CHECK_THAT(error_of<InputError>([&] { read_idx_labels(folder / "labels"); }),
             Contains("bad magic 0x00000803, expected 0x00000801"));
}

TEST_CASE("DA-01 (d): a file that is too short says how many bytes it has") {
  const Bytes whole = ten_images();
  REQUIRE(whole.size() == 7856);
  const auto first = [&](int count) { return Bytes(whole.begin(), whole.begin() + count); };
  CHECK(refusal(first(7855)) == "expected 7856 bytes, but it has 7855");
  CHECK(refusal(first(16)) == "expected 7856 bytes, but it has 16");
  CHECK(refusal(first(15)) == "expected a header of 16 bytes, but it has 15");
  CHECK(refusal(first(3)) == "expected a header of 16 bytes, but it has 3");
  CHECK(refusal(first(0)) == "expected a header of 16 bytes, but it has 0");
  CHECK(refusal(gzip(first(7855))) == "expected 7856 bytes, but it has 7855");
  CHECK(refusal(gzip(first(16))) == "expected 7856 bytes, but it has 16");
  CHECK(refusal(gzip(first(3))) == "expected a header of 16 bytes, but it has 3");
}

TEST_CASE("DA-01 (d): a file that goes on after its last value is refused") {
  Bytes longer = ten_images();
  longer.push_back(0);
  CHECK(refusal(longer) == "expected 7856 bytes, but it has 7857");
  CHECK(refusal(gzip(longer)) == "expected 7856 bytes, but it has more");
}

TEST_CASE("DA-01 (e) (f): a missing path and a folder give the system's reason") {
  const TemporaryFolder folder;
  const std::string missing = (folder / "missing").string();
  CHECK(error_of<InputError>([&] { read_idx_images(missing); }) ==
        missing + ": No such file or directory");
  CHECK(error_of<InputError>([&] { read_idx_images(folder.path()); }) ==
        folder.path().string() + ": Is a directory");
}

TEST_CASE("DA-01: memory grows with the file, not with what its header claims") {
  constexpr std::size_t modest = std::size_t{4} << 20;
  const Bytes few(10);
  // 2^31 - 1 samples of one pixel, which fits every type, and products that overflow 32 and 64
  // bits.
  for (const std::vector<std::uint32_t>& sizes : std::vector<std::vector<std::uint32_t>>{
           {0x7fffffff, 1, 1},
           {0x7fffffff, 0x7fffffff, 0x7fffffff},
           {0xffffffff, 0xffffffff, 0xffffffff},
           {0x00010000, 0x00010000, 0x00010000},
           {0x40000000, 0x40000000, 16}}) {  // the product is 2^64, 0 in 64 bits
    const Bytes plain = idx_bytes(0x803, sizes, few);
    const Bytes packed = gzip(plain);
    largest_allocation = 0;
    const std::string of_plain = refusal(plain);
    const std::string of_packed = refusal(packed);
    INFO(of_plain << " | " << of_packed);
    CHECK((of_plain.ends_with("bytes, but it has 26") || of_plain.ends_with("are too large")));
    CHECK((of_packed.ends_with("bytes, but it has 26") || of_packed.ends_with("are too large")));
    CHECK(largest_allocation <= modest);
  }
}

TEST_CASE("DA-01: a small gzip file that holds much more than its header says is not unpacked") {
  Bytes longer = ten_images();
  longer.resize(std::size_t{64} << 20);
  const Bytes packed = gzip(longer);
  largest_allocation = 0;
  CHECK(refusal(packed) == "expected 7856 bytes, but it has more");
  CHECK(largest_allocation <= std::size_t{1} << 20);
}

TEST_CASE("An IDX file without samples is refused") {
  CHECK(refusal(idx_bytes(0x803, {0, 28, 28}, {})) ==
        "dimensions 0 x 28 x 28: there are no samples in it");
  CHECK(refusal(idx_bytes(0x803, {5, 0, 28}, {})) ==
        "dimensions 5 x 0 x 28: there are no samples in it");
}

}  // namespace
}  // namespace ddp
