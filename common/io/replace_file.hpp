#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>

namespace ddp {

/// Writes a piece of a file; what it is given lands on the disk in order.
using WriteBytes = std::function<void(std::span<const std::byte>)>;

/// Puts a new file in the place of `path`, or leaves the old one as it was: `write` goes to a
/// temporary file beside it, which is synced and then renamed, so that no reader and no crash ever
/// sees half a file. Folders that are missing are made. Throws InputError with the path and the
/// system's reason.
void replace_file(const std::string& path, const std::function<void(const WriteBytes&)>& write);

/// Throws InputError, with the path and the reason, if replace_file(path, ...) could not work now.
/// For a check before hours of training.
void check_replaceable(const std::string& path);

}  // namespace ddp
