#include "common/mpi/devices.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <vector>

namespace ddp::mpi {
namespace {

// "rank 2", "ranks 0 and 2", "ranks 0, 1 and 2"
std::string names_of(const std::vector<int>& ranks) {
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) text += i + 1 == ranks.size() ? " and " : ", ";
    text += fmt::format("{}", ranks[i]);
  }
  return text;
}

struct Host {
  std::vector<int> ranks;
  std::vector<int> without_device;
  std::map<std::string, std::vector<int>> ranks_of_device;  // by UUID
  int visible_devices = 0;                                  // the most that a rank sees
  bool simulated = false;
};

std::optional<std::string> error_of(const std::string& name, const Host& host) {
  std::string trouble;
  for (const auto& [uuid, ranks] : host.ranks_of_device) {
    if (ranks.size() < 2) continue;
    trouble = fmt::format("{} would use one GPU of host {}, {}", names_of(ranks), name, uuid);
    break;
  }
  if (!host.without_device.empty()) {
    trouble = fmt::format("no GPU of host {} is left for {}", name, names_of(host.without_device));
  }
  if (trouble.empty()) return std::nullopt;
  const auto found = std::max(host.visible_devices, static_cast<int>(host.ranks_of_device.size()));
  return fmt::format(
      "{}: {} ranks on a host requires at least {} {} GPUs; found {}. Start fewer ranks (-n {}){}; "
      "in tests, --share-device lets ranks share a GPU",
      trouble, host.ranks.size(), host.ranks.size(), host.simulated ? "simulated" : "physical",
      found, found, host.simulated ? " or simulate more GPUs (SIMGPU_DEVICES)" : "");
}

}  // namespace

std::optional<int> device_of(int local_rank, int visible_devices) {
  if (visible_devices == 1) return 0;
  if (local_rank < visible_devices) return local_rank;
  return std::nullopt;
}

std::optional<std::string> device_error(std::span<const RankDevice> ranks, bool may_share) {
  std::map<std::string, Host> hosts;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const RankDevice& one = ranks[i];
    const int rank = static_cast<int>(i);
    if (one.error[0] != '\0') {
      return fmt::format("rank {} on host {}: {}", rank, one.host.data(), one.error.data());
    }
    if (one.launcher_local_rank >= 0 && one.launcher_local_rank != one.local_rank) {
      return fmt::format(
          "rank {} on host {}: the launcher's variable says local rank {}, but MPI counts {}; its "
          "device would be another rank's",
          rank, one.host.data(), one.launcher_local_rank, one.local_rank);
    }
    Host& host = hosts[one.host.data()];
    host.ranks.push_back(rank);
    host.visible_devices = std::max(host.visible_devices, one.visible_devices);
    host.simulated = one.simulated;
    if (one.device < 0) {
      host.without_device.push_back(rank);
    } else {
      host.ranks_of_device[one.uuid.data()].push_back(rank);
    }
  }
  if (may_share) return std::nullopt;
  for (const auto& [name, host] : hosts) {
    if (const auto error = error_of(name, host)) return error;
  }
  return std::nullopt;
}

}  // namespace ddp::mpi
