#include "common/io/output_file.hpp"

#include <cerrno>
#include <system_error>

#include "common/errors.hpp"

namespace ddp {
namespace {

[[noreturn]] void fail(const std::string& path) {
  throw InputError(path + ": cannot be written: " + std::generic_category().message(errno));
}

}  // namespace

OutputFile::OutputFile(const std::string& path)
    : path_(path), file_(std::fopen(path.c_str(), "w")) {
  if (!file_) fail(path_);
}

void OutputFile::write_line(std::string_view line) {
  const bool written = std::fwrite(line.data(), 1, line.size(), file_.get()) == line.size() &&
                       std::fputc('\n', file_.get()) != EOF && std::fflush(file_.get()) == 0;
  if (!written) fail(path_);
}

}  // namespace ddp
