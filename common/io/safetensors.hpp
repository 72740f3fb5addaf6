#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <vector>

namespace ddp {

/// Named arrays and text in one file, in the format safetensors: 8 bytes with the length of a JSON
/// header (little-endian), the header, the arrays' bytes (little-endian) one after another. Other
/// tools read it; nothing in it is executed.
///
/// The text carries a checksum over everything else, under `checksum`, so that a file that was
/// damaged is not taken for weights.

/// An array to be written; the bytes are not copied.
struct TensorView {
  std::string name;
  std::string dtype;  ///< "F64", "F32", "F16", "BF16", "I64", "U8"
  std::vector<std::int64_t> shape;
  std::span<const std::byte> bytes;
};

using TextMetadata = std::map<std::string, std::string>;

/// Replaces `path` whole or not at all (replace_file.hpp). The same input gives the same bytes.
void write_safetensors(const std::string& path, std::span<const TensorView> tensors,
                       const TextMetadata& metadata);

/// An array that was read.
struct Tensor {
  std::string dtype;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
};

struct TensorFile {
  std::map<std::string, Tensor> tensors;
  TextMetadata metadata;  ///< without the checksum
};

/// Reads a file of write_safetensors. Throws InputError, with the path and what is wrong, for a
/// file that is missing, cut short, too long, not in this format or damaged. Allocates no more than
/// the file's size can justify.
TensorFile read_safetensors(const std::string& path);

}  // namespace ddp
