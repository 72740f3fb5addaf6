#include "common/data/idx.hpp"

#include <fcntl.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <system_error>

#include "common/errors.hpp"

namespace ddp {
namespace {

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& reason) {
  throw InputError(path.string() + ": " + reason);
}

std::string hex(std::uint32_t value) {
  char text[11];
  std::snprintf(text, sizeof text, "0x%08x", value);
  return text;
}

// Bytes of a file, decompressed where it begins as a gzip file does.
class ByteReader {
 public:
  explicit ByteReader(const std::filesystem::path& path) : path_(path) {
    const int descriptor = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (descriptor < 0) fail(path, std::generic_category().message(errno));
    file_.reset(gzdopen(descriptor, "rb"));
    if (!file_) {
      ::close(descriptor);
      fail(path, "no memory to read it");
    }
    gzbuffer(file_.get(), 1u << 17);
  }

  // Fills `bytes` as far as the file reaches; returns how many it read.
  std::size_t read(std::span<std::uint8_t> bytes) {
    std::size_t done = 0;
    while (done < bytes.size()) {
      const std::size_t wanted = std::min(bytes.size() - done, std::size_t{1} << 30);
      const int count = gzread(file_.get(), bytes.data() + done, static_cast<unsigned>(wanted));
      // A gzip file that ends too early is reported only by gzerror.
      int code = Z_OK;
      const char* const text = gzerror(file_.get(), &code);
      if (code == Z_ERRNO) fail(path_, std::generic_category().message(errno));
      if (code != Z_OK && code != Z_STREAM_END) {
        fail(path_, std::string("damaged gzip file (") + text + ")");
      }
      if (count <= 0) break;
      done += static_cast<std::size_t>(count);
    }
    return done;
  }

  // Size of a file that is not compressed, which is known before it is read.
  std::optional<std::uint64_t> plain_size() const {
    if (gzdirect(file_.get()) == 0 || !std::filesystem::is_regular_file(path_)) return {};
    return std::filesystem::file_size(path_);
  }

 private:
  struct Close {
    void operator()(gzFile file) const { gzclose(file); }
  };
  std::filesystem::path path_;
  std::unique_ptr<std::remove_pointer_t<gzFile>, Close> file_;
};

// Reads exactly `count` bytes up to the end of the file, `header_size` bytes having been read.
std::vector<std::uint8_t> read_values(ByteReader& reader, std::uint64_t count,
                                      std::size_t header_size, const std::filesystem::path& path) {
  const auto wrong_size = [&](const std::string& actual) {
    fail(path, "expected " + std::to_string(header_size + count) + " bytes, but it has " + actual);
  };
  if (const auto size = reader.plain_size(); size && *size != header_size + count) {
    wrong_size(std::to_string(*size));
  }
  // In growing pieces: a header that claims too much is found out before memory is taken for it.
  std::vector<std::uint8_t> values;
  while (values.size() < count) {
    const std::uint64_t begin = values.size();
    values.resize(std::min(count, std::max<std::uint64_t>(std::uint64_t{1} << 20, 2 * begin)));
    const std::uint64_t end = begin + reader.read(std::span(values).subspan(begin));
    if (end < values.size()) wrong_size(std::to_string(header_size + end));
  }
  std::uint8_t beyond[1];
  if (reader.read(beyond) > 0) wrong_size("more");
  return values;
}

struct Idx {
  std::vector<std::uint32_t> dimensions;
  std::vector<std::uint8_t> values;
};

Idx read_idx(const std::filesystem::path& path, std::uint32_t expected_magic) {
  ByteReader reader(path);
  const std::size_t dimension_count = expected_magic & 0xff;
  std::vector<std::uint8_t> header(4 * (1 + dimension_count));
  const std::size_t header_read = reader.read(header);
  const auto word = [&](std::size_t index) {
    const std::uint8_t* const bytes = &header[4 * index];
    return std::uint32_t{bytes[0]} << 24 | std::uint32_t{bytes[1]} << 16 |
           std::uint32_t{bytes[2]} << 8 | bytes[3];
  };
  if (header_read >= 4 && word(0) != expected_magic) {
    fail(path, "bad magic " + hex(word(0)) + ", expected " + hex(expected_magic));
  }
  if (header_read < header.size()) {
    fail(path, "expected a header of " + std::to_string(header.size()) + " bytes, but it has " +
                   std::to_string(header_read));
  }

  Idx idx;
  std::uint64_t count = 1;
  bool too_large = false;
  std::string shape;
  for (std::size_t index = 1; index <= dimension_count; ++index) {
    idx.dimensions.push_back(word(index));
    too_large |= word(index) > static_cast<std::uint32_t>(std::numeric_limits<int>::max());
    too_large |= __builtin_mul_overflow(count, std::uint64_t{word(index)}, &count);
    shape += (shape.empty() ? "" : " x ") + std::to_string(word(index));
  }
  // So large that no sum below can overflow either.
  too_large |= count > std::uint64_t{1} << 48;
  if (too_large) fail(path, "dimensions " + shape + " are too large");
  if (count == 0) fail(path, "dimensions " + shape + ": there are no samples in it");
  idx.values = read_values(reader, count, header.size(), path);
  return idx;
}

}  // namespace

IdxImages read_idx_images(const std::filesystem::path& path) {
  Idx idx = read_idx(path, 0x00000803);
  return {static_cast<int>(idx.dimensions[0]), static_cast<int>(idx.dimensions[1]),
          static_cast<int>(idx.dimensions[2]), std::move(idx.values)};
}

std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path) {
  return std::move(read_idx(path, 0x00000801).values);
}

}  // namespace ddp
