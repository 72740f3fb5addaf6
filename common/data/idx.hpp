#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

namespace ddp {

/// Grey images of one size: `pixels` has shape (count, rows, columns).
struct IdxImages {
  int count = 0;
  int rows = 0;
  int columns = 0;
  std::vector<std::uint8_t> pixels;
};

/// Readers for the IDX format of MNIST (LeCun, Cortes, Burges): a big-endian magic number, a
/// big-endian size for each dimension, then unsigned bytes. A file may be compressed by gzip,
/// whatever its name.
///
/// A file that is no such file, that is cut short or that goes on after its last value throws
/// InputError with the path, what was expected and what is there. Memory grows with the bytes that
/// were read, not with what the header claims.
IdxImages read_idx_images(const std::filesystem::path& path);
std::vector<std::uint8_t> read_idx_labels(const std::filesystem::path& path);

}  // namespace ddp
