#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

namespace ddp {

using Bytes = std::vector<std::uint8_t>;

/// An IDX file: magic and sizes in big-endian order, then the values.
Bytes idx_bytes(std::uint32_t magic, const std::vector<std::uint32_t>& sizes,
                std::span<const std::uint8_t> values);

/// The bytes as a gzip file.
Bytes gzip(std::span<const std::uint8_t> bytes);

/// A folder with four small files: `train` and `test` samples of rows x columns pixels. Pixel p of
/// sample s is (7 * s + p) mod 256, its label s mod classes.
void write_idx_folder(const std::filesystem::path& folder, std::uint32_t train, std::uint32_t test,
                      std::uint32_t rows, std::uint32_t columns, std::uint32_t classes);

}  // namespace ddp
