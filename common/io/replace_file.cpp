#include "common/io/replace_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "common/errors.hpp"

namespace ddp {
namespace {

[[noreturn]] void fail(const std::string& path, const std::string& reason) {
  throw InputError("cannot write " + path + ": " + reason);
}

/// A file that is removed again unless it is put in its place.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path)
      : path_(path), temporary_(path + ".tmp-" + std::to_string(getpid())) {
    const std::filesystem::path target(path);
    std::error_code error;
    if (std::filesystem::is_directory(target, error)) fail(path, std::strerror(EISDIR));
    if (target.has_parent_path()) {
      std::filesystem::create_directories(target.parent_path(), error);
      if (error) fail(path, error.message());
    }
    file_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
    if (file_ < 0) fail(path, std::strerror(errno));
  }
  ~TemporaryFile() {
    if (file_ >= 0) close(file_);
    if (!temporary_.empty()) unlink(temporary_.c_str());
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t written = ::write(file_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) fail(path_, std::strerror(errno));
      bytes = bytes.subspan(static_cast<std::size_t>(written));
    }
  }

  void put_in_place() {
    // Data before name: after a power cut the name must not stand for an empty file.
    if (fsync(file_) != 0) fail(path_, std::strerror(errno));
    if (close(std::exchange(file_, -1)) != 0) fail(path_, std::strerror(errno));
    if (rename(temporary_.c_str(), path_.c_str()) != 0) fail(path_, std::strerror(errno));
    temporary_.clear();
    const auto parent = std::filesystem::path(path_).parent_path();
    const int folder =
        open(parent.empty() ? "." : parent.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0) return;  // some file systems do not let a folder be opened; the file is there
    fsync(folder);
    close(folder);
  }

 private:
  std::string path_, temporary_;
  int file_ = -1;
};

}  // namespace

void replace_file(const std::string& path, const std::function<void(const WriteBytes&)>& write) {
  TemporaryFile file(path);
  write([&file](std::span<const std::byte> bytes) { file.write(bytes); });
  file.put_in_place();
}

void check_replaceable(const std::string& path) { TemporaryFile file(path); }

}  // namespace ddp
