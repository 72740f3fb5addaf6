#include "common/io/safetensors.hpp"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "common/errors.hpp"
#include "common/io/replace_file.hpp"
#include "tests/support/catch.hpp"
#include "tests/support/error_of.hpp"
#include "tests/support/idx_files.hpp"
#include "tests/support/temporary_folder.hpp"

namespace ddp {
namespace {

using Catch::Matchers::Contains;

// Two arrays and a text, as 8 + header + 24 + 16 bytes.
struct Example {
  Example() { write_safetensors(path, tensors(), {{"step", "5"}}); }

  std::vector<TensorView> tensors() const {
    return {{"model.weight", "F32", {2, 3}, std::as_bytes(std::span(weight))},
            {"model.bias", "F64", {2}, std::as_bytes(std::span(bias))}};
  }
  Bytes bytes() const {
    const std::string text = read_file(path);
    return {text.begin(), text.end()};
  }
  std::string error_of_reading(const Bytes& changed) const {
    const std::string copy = (folder / "changed.safetensors").string();
    write_file(copy, changed);
    const std::string message = error_of<InputError>([&] { read_safetensors(copy); });
    CHECK_THAT(message, Contains(copy));
    return message;
  }

  const std::vector<float> weight = {1, -2, 3, 0.5F, 1e-30F, -0.0F};
  const std::vector<double> bias = {0.1, -7};
  const TemporaryFolder folder;
  const std::string path = (folder / "new" / "folder" / "file.safetensors").string();
};

TEST_CASE("A safetensors file keeps names, shapes, types and every bit") {
  const Example example;
  const TensorFile file = read_safetensors(example.path);
  CHECK(file.metadata == TextMetadata{{"step", "5"}});
  REQUIRE(file.tensors.size() == 2);
  const Tensor& weight = file.tensors.at("model.weight");
  CHECK(weight.dtype == "F32");
  CHECK(weight.shape == std::vector<std::int64_t>{2, 3});
  REQUIRE(weight.bytes.size() == 24);
  CHECK(std::memcmp(weight.bytes.data(), example.weight.data(), 24) == 0);
  const Tensor& bias = file.tensors.at("model.bias");
  CHECK(bias.dtype == "F64");
  REQUIRE(bias.bytes.size() == 16);
  CHECK(std::memcmp(bias.bytes.data(), example.bias.data(), 16) == 0);
}

TEST_CASE("The file has the layout that the format prescribes") {
  const Example example;
  const Bytes bytes = example.bytes();
  std::uint64_t header_size = 0;
  for (std::size_t i = 0; i < 8; ++i) header_size |= std::uint64_t{bytes[i]} << (8 * i);
  CHECK(header_size % 8 == 0);
  REQUIRE(bytes.size() == 8 + header_size + 24 + 16);
  const auto header =
      nlohmann::json::parse(bytes.begin() + 8, bytes.begin() + 8 + static_cast<long>(header_size));
  CHECK(header["__metadata__"]["step"] == "5");
  CHECK(header["model.weight"]["dtype"] == "F32");
  CHECK(header["model.weight"]["shape"] == nlohmann::json({2, 3}));
  CHECK(header["model.weight"]["data_offsets"] == nlohmann::json({0, 24}));
  CHECK(header["model.bias"]["data_offsets"] == nlohmann::json({24, 40}));
  CHECK(std::memcmp(bytes.data() + 8 + header_size, example.weight.data(), 24) == 0);
}

TEST_CASE("CK-01: The same content gives the same bytes, and nothing is left beside the file") {
  const Example example;
  const Bytes first = example.bytes();
  write_safetensors(example.path, example.tensors(), {{"step", "5"}});
  CHECK(example.bytes() == first);
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(example.folder / "new" / "folder")) {
    CHECK(entry.path() == example.path);
    ++files;
  }
  CHECK(files == 1);
}

TEST_CASE("CK-03: A file that was cut is refused with both sizes") {
  const Example example;
  const Bytes whole = example.bytes();
  const std::string size = std::to_string(whole.size());
  Bytes cut = whole;
  cut.resize(whole.size() - 1);
  CHECK_THAT(example.error_of_reading(cut), Contains("expected " + size + " bytes") &&
                                                Contains("has " + std::to_string(cut.size())));
  cut.resize(whole.size() / 2);
  CHECK_THAT(example.error_of_reading(cut), Contains("has " + std::to_string(cut.size())));
  cut.resize(7);
  CHECK_THAT(example.error_of_reading(cut), Contains("at least 8 bytes") && Contains("has 7"));
  CHECK_THAT(example.error_of_reading({}), Contains("has 0"));
}

TEST_CASE("CK-03: A byte too many and any changed byte are refused") {
  const Example example;
  const Bytes whole = example.bytes();
  Bytes longer = whole;
  longer.push_back(0);
  CHECK_THAT(example.error_of_reading(longer),
             Contains("expected " + std::to_string(whole.size()) + " bytes"));
  for (std::size_t i = 0; i < whole.size(); ++i) {
    Bytes changed = whole;
    changed[i] ^= 1;
    INFO("byte " << i);
    CHECK(example.error_of_reading(changed) != "(nothing was thrown)");
  }
  Bytes damaged = whole;
  damaged[whole.size() - 3] ^= 0x10;
  CHECK_THAT(example.error_of_reading(damaged), Contains("checksum"));
}

// A file with this header and `data` zero bytes.
Bytes file_with(const std::string& header, std::size_t data) {
  Bytes bytes(8 + header.size() + data);
  for (std::size_t i = 0; i < 8; ++i) {
    bytes[i] = static_cast<std::uint8_t>(header.size() >> (8 * i));
  }
  std::copy(header.begin(), header.end(), bytes.begin() + 8);
  return bytes;
}

TEST_CASE("Headers that lie are refused before anything is allocated for them") {
  const Example example;
  const auto error = [&](const std::string& header) {
    return example.error_of_reading(file_with(header, 8));
  };
  CHECK_THAT(error("no json"), Contains("JSON"));
  CHECK_THAT(error("[]"), Contains("JSON object"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[2]}})"), Contains("tensor a"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[8]}})"),
             Contains("tensor a"));
  CHECK_THAT(error(R"({"a":{"dtype":"F8","shape":[8],"data_offsets":[0,8]}})"), Contains("type"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[-2],"data_offsets":[0,8]}})"),
             Contains("impossible shape"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}})"), Contains("12"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,0]}})"),
             Contains("impossible shape"));
  CHECK_THAT(
      error(R"({"a":{"dtype":"U8","shape":[1000000000000],"data_offsets":[0,1000000000000]}})"),
      Contains("expected 1000000000"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[1],"data_offsets":[4,8]}})"), Contains("gap"));
  CHECK_THAT(error(R"({"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})"),
             Contains("no checksum"));
  Bytes huge = file_with("{}", 0);
  huge[6] = 0xff;
  CHECK_THAT(example.error_of_reading(huge), Contains("expected a header of"));
}

TEST_CASE("What cannot be read or written gives the system's reason") {
  const Example example;
  const std::string missing = (example.folder / "none").string();
  CHECK_THAT(error_of<InputError>([&] { read_safetensors(missing); }),
             Contains(missing) && Contains("No such file"));
  const std::string folder = (example.folder / "new").string();
  CHECK_THAT(error_of<InputError>([&] { read_safetensors(folder); }), Contains("directory"));
  CHECK_THAT(error_of<InputError>([&] { check_replaceable(folder); }), Contains("directory"));
  const std::string below_a_file = example.path + "/x";
  CHECK_THAT(error_of<InputError>([&] { check_replaceable(below_a_file); }),
             Contains(below_a_file) && Contains("Not a directory"));
  CHECK_NOTHROW(check_replaceable(example.path));
  CHECK_NOTHROW(read_safetensors(example.path));  // the check has not touched it
}

TEST_CASE("A write that fails leaves the file as it was, and nothing beside it") {
  const Example example;
  const Bytes before = example.bytes();
  CHECK_THROWS_AS(replace_file(example.path,
                               [](const WriteBytes& write) {
                                 write(std::as_bytes(std::span("half of it")));
                                 throw std::runtime_error("no more");
                               }),
                  std::runtime_error);
  CHECK(example.bytes() == before);
  CHECK(std::distance(std::filesystem::directory_iterator(example.folder / "new" / "folder"), {}) ==
        1);
}

}  // namespace
}  // namespace ddp
