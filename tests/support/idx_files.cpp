#include "tests/support/idx_files.hpp"

#include <zlib.h>

#include <stdexcept>
#include <string>

#include "tests/support/temporary_folder.hpp"

namespace ddp {

Bytes idx_bytes(std::uint32_t magic, const std::vector<std::uint32_t>& sizes,
                std::span<const std::uint8_t> values) {
  Bytes bytes;
  const auto append = [&](std::uint32_t word) {
    for (const int shift : {24, 16, 8, 0})
      bytes.push_back(static_cast<std::uint8_t>(word >> shift));
  };
  append(magic);
  for (const std::uint32_t size : sizes) append(size);
  bytes.insert(bytes.end(), values.begin(), values.end());
  return bytes;
}

Bytes gzip(std::span<const std::uint8_t> bytes) {
  z_stream stream{};
  constexpr int with_gzip_header = 16;
  if (deflateInit2(&stream, Z_BEST_COMPRESSION, Z_DEFLATED, MAX_WBITS + with_gzip_header, 8,
                   Z_DEFAULT_STRATEGY) != Z_OK) {
    throw std::runtime_error("deflateInit2 failed");
  }
  Bytes out(deflateBound(&stream, bytes.size()) + 64);
  stream.next_in = const_cast<Bytef*>(bytes.data());  // zlib does not write to it
  stream.avail_in = static_cast<uInt>(bytes.size());
  stream.next_out = out.data();
  stream.avail_out = static_cast<uInt>(out.size());
  const int status = deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  if (status != Z_STREAM_END) throw std::runtime_error("deflate failed");
  return out;
}

void write_idx_folder(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test,
                      std::uint32_t rows, std::uint32_t columns, std::uint32_t classes) {
  std::filesystem::create_directories(folder);
  const auto write = [&](const std::string& prefix, std::uint32_t count) {
    Bytes pixels;
    Bytes labels;
    for (std::uint32_t sample = 0; sample < count; ++sample) {
      labels.push_back(static_cast<std::uint8_t>(sample % classes));
      for (std::uint32_t pixel = 0; pixel < rows * columns; ++pixel) {
        pixels.push_back(static_cast<std::uint8_t>(7 * sample + pixel));
      }
    }
    write_file(folder / (prefix + "-images-idx3-ubyte"),
               idx_bytes(0x803, {count, rows, columns}, pixels));
    write_file(folder / (prefix + "-labels-idx1-ubyte"), idx_bytes(0x801, {count}, labels));
  };
  write("train", train);
  write("t10k", test);
}

}  // namespace ddp
