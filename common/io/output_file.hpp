#pragma once

#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

namespace ddp {

/// A text file that is written line by line, each line being in the file when write_line returns:
/// if the program dies, the lines before are there.
class OutputFile {
 public:
  /// Creates or empties the file. Throws InputError with the path and the system's reason.
  explicit OutputFile(const std::string& path);

  /// Adds a line break. Throws InputError, for instance where the disk is full.
  void write_line(std::string_view line);

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
};

}  // namespace ddp
