#pragma once

#include <nccl.h>

#include <source_location>
#include <string>

#include "common/errors.hpp"

namespace ddp::nccl {

/// Throws PeerError with NCCL's text and the caller's file and line, unless `result` is success.
/// `communicator` may be null.
inline void check(ncclResult_t result, ncclComm_t communicator = nullptr,
                  std::source_location where = std::source_location::current()) {
  if (result == ncclSuccess) return;
  std::string text = std::string("NCCL: ") + ncclGetErrorString(result);
  const char* const last = ncclGetLastError(communicator);
  if (last != nullptr && *last != '\0') text += std::string("; ") + last;
  throw PeerError(text + " (" + where.file_name() + ":" + std::to_string(where.line()) + ")");
}

}  // namespace ddp::nccl
