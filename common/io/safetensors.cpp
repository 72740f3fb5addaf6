#include "common/io/safetensors.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "common/errors.hpp"
#include "common/io/checksum.hpp"
#include "common/io/replace_file.hpp"

namespace ddp {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian");

using nlohmann::json;

constexpr std::size_t length_bytes = 8;
constexpr std::string_view no_checksum = "0000000000000000";

std::size_t element_size(const std::string& dtype) {
  static const std::map<std::string, std::size_t> sizes = {{"F64", 8},  {"F32", 4}, {"F16", 2},
                                                           {"BF16", 2}, {"I64", 8}, {"U8", 1}};
  const auto found = sizes.find(dtype);
  return found == sizes.end() ? 0 : found->second;
}

/// Bytes of an array; nothing if the product does not fit or a size is negative.
std::optional<std::size_t> size_in_bytes(const std::string& dtype,
                                         const std::vector<std::int64_t>& shape) {
  std::size_t size = element_size(dtype);
  if (size == 0) return std::nullopt;
  for (const std::int64_t extent : shape) {
    if (extent < 0 || __builtin_mul_overflow(size, static_cast<std::size_t>(extent), &size)) {
      return std::nullopt;
    }
  }
  return size;
}

/// Of the header, with zeros for the checksum itself, and the data.
class FileChecksum {
 public:
  explicit FileChecksum(std::string_view header) { add(std::as_bytes(std::span(header))); }
  void add(std::span<const std::byte> bytes) { checksum_.add(bytes); }
  std::string text() const { return checksum_text(checksum_.value()); }

 private:
  Checksum checksum_;
};

std::string header_text(std::span<const TensorView> tensors, const TextMetadata& metadata) {
  json header;
  header["__metadata__"] = metadata;
  header["__metadata__"]["checksum"] = no_checksum;
  std::size_t offset = 0;
  for (const TensorView& tensor : tensors) {
    const auto size = size_in_bytes(tensor.dtype, tensor.shape);
    if (!size || *size != tensor.bytes.size()) {
      throw std::logic_error("tensor " + tensor.name + ": shape and bytes do not agree");
    }
    header[tensor.name] = {{"dtype", tensor.dtype},
                           {"shape", tensor.shape},
                           {"data_offsets", {offset, offset + *size}}};
    offset += *size;
  }
  std::string text = header.dump();
  text.append((8 - text.size() % 8) % 8, ' ');  // the data starts at a multiple of 8
  return text;
}

/// Reads the parts of one file and knows what is left of it.
class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path) {
    std::error_code error;
    size_ = std::filesystem::file_size(path, error);
    if (error) fail(error.message());
    file_.open(path, std::ios::binary);
    if (!file_) fail(std::strerror(errno));
  }

  [[noreturn]] void fail(const std::string& reason) const {
    throw InputError(path_ + ": " + reason);
  }

  std::uint64_t size() const { return size_; }

  void read(void* to, std::size_t bytes) {
    file_.read(static_cast<char*>(to), static_cast<std::streamsize>(bytes));
    if (static_cast<std::size_t>(file_.gcount()) != bytes) fail("the file became shorter");
  }

 private:
  std::string path_;
  std::uint64_t size_ = 0;
  std::ifstream file_;
};

/// A header's entry: an array whose bytes are still to come.
struct Entry {
  std::string name;
  Tensor tensor;
  std::uint64_t begin, end;
};

Entry parse_entry(const Reader& reader, const std::string& name, const json& value) {
  Entry entry{name, {}, 0, 0};
  try {
    entry.tensor.dtype = value.at("dtype").get<std::string>();
    entry.tensor.shape = value.at("shape").get<std::vector<std::int64_t>>();
    const auto offsets = value.at("data_offsets").get<std::vector<std::uint64_t>>();
    if (offsets.size() != 2) reader.fail("tensor " + name + ": data_offsets must be two numbers");
    entry.begin = offsets[0], entry.end = offsets[1];
  } catch (const json::exception& error) {
    reader.fail("tensor " + name + ": " + error.what());
  }
  const auto size = size_in_bytes(entry.tensor.dtype, entry.tensor.shape);
  if (!size) reader.fail("tensor " + name + ": unknown type or impossible shape");
  if (entry.begin > entry.end || entry.end - entry.begin != *size) {
    reader.fail("tensor " + name + ": its shape takes " + std::to_string(*size) +
                " bytes, its offsets are " + std::to_string(entry.begin) + " and " +
                std::to_string(entry.end));
  }
  return entry;
}

}  // namespace

void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const TextMetadata& metadata) {
  std::string header = header_text(tensors, metadata);
  FileChecksum checksum(header);
  for (const TensorView& tensor : tensors) checksum.add(tensor.bytes);
  // "checksum" precedes no other text of this form: keys are sorted, and quotes in text are
  // escaped.
  const std::string unset = "\"checksum\":\"" + std::string(no_checksum);
  header.replace(header.find(unset) + unset.size() - no_checksum.size(), no_checksum.size(),
                 checksum.text());
  replace_file(path, [&](const WriteBytes& write) {
    const std::uint64_t length = header.size();
    write(std::as_bytes(std::span(&length, 1)));
    write(std::as_bytes(std::span(header)));
    for (const TensorView& tensor : tensors) write(tensor.bytes);
  });
}

TensorFile read_safetensors(const std::string& path) {
  Reader reader(path);
  if (reader.size() < length_bytes) {
    reader.fail("not a safetensors file: expected at least 8 bytes, it has " +
                std::to_string(reader.size()));
  }
  std::uint64_t header_bytes = 0;
  reader.read(&header_bytes, length_bytes);
  if (header_bytes > reader.size() - length_bytes) {
    reader.fail("expected a header of " + std::to_string(header_bytes) + " bytes, the file has " +
                std::to_string(reader.size()) + " in all");
  }
  const std::uint64_t data_bytes = reader.size() - length_bytes - header_bytes;
  std::string header(header_bytes, ' ');
  reader.read(header.data(), header.size());
  const json parsed = json::parse(header, nullptr, false);
  if (!parsed.is_object()) reader.fail("not a safetensors file: its header is no JSON object");

  TensorFile file;
  std::vector<Entry> entries;
  for (const auto& [name, value] : parsed.items()) {
    if (name != "__metadata__") {
      entries.push_back(parse_entry(reader, name, value));
      continue;
    }
    try {
      file.metadata = value.get<TextMetadata>();
    } catch (const json::exception& error) {
      reader.fail(std::string("__metadata__: ") + error.what());
    }
  }
  // The arrays follow one another without gaps, so that every byte is accounted for.
  std::sort(entries.begin(), entries.end(),
            [](const Entry& a, const Entry& b) { return a.end < b.end; });
  std::uint64_t expected = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != expected) reader.fail("tensor " + entry.name + ": a gap or an overlap");
    expected = entry.end;
  }
  if (expected != data_bytes) {
    reader.fail("expected " + std::to_string(length_bytes + header_bytes + expected) +
                " bytes, the file has " + std::to_string(reader.size()));
  }

  const auto stored = file.metadata.extract("checksum");
  if (stored.empty()) reader.fail("no checksum in its metadata: not a checkpoint of this project");
  const std::size_t place = header.find("\"checksum\":\"" + stored.mapped());
  if (place != std::string::npos && stored.mapped().size() == no_checksum.size()) {
    header.replace(place + 12, no_checksum.size(), no_checksum);
  }
  FileChecksum checksum(header);
  for (Entry& entry : entries) {
    entry.tensor.bytes.resize(entry.end - entry.begin);
    reader.read(entry.tensor.bytes.data(), entry.tensor.bytes.size());
    checksum.add(entry.tensor.bytes);
    file.tensors.emplace(entry.name, std::move(entry.tensor));
  }
  if (checksum.text() != stored.mapped()) {
    reader.fail("damaged: its checksum is " + checksum.text() + ", expected " + stored.mapped());
  }
  return file;
}

}  // namespace ddp
