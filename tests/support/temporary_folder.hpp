#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace ddp {

/// A fresh folder under the system's folder for temporary files, removed with all that is in it.
class TemporaryFolder {
 public:
  TemporaryFolder();
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  ~TemporaryFolder();

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::string& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

void write_file(const std::filesystem::path& path, std::span<const std::uint8_t> bytes);
std::string read_file(const std::filesystem::path& path);
/// Without the line breaks.
std::vector<std::string> read_lines(const std::filesystem::path& path);

}  // namespace ddp
