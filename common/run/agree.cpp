#include "common/run/agree.hpp"

#include <exception>
#include <string>
#include <vector>

#include "common/errors.hpp"

namespace ddp {

void on_all_ranks(const Ranks& ranks, const std::function<void()>& action) {
  if (ranks.size() == 1) return action();
  std::string mine;  // empty: all is well; else a character with the exit code, then the message
  const auto note = [&](ExitCode code, const char* message) {
    mine = static_cast<char>(code) + std::string(message);
  };
  try {
    action();
  } catch (const Error& error) {
    note(error.code(), error.what());
  } catch (const std::exception& error) {
    note(ExitCode::failure, error.what());
  }
  const std::vector<std::string> all = ranks.all_gather(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    throw AgreedError(static_cast<ExitCode>(all[rank][0]),
                      "rank " + std::to_string(rank) + ": " + all[rank].substr(1));
  }
}

}  // namespace ddp
