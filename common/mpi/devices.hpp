#pragma once

#include <array>
#include <optional>
#include <span>
#include <string>

namespace ddp::mpi {

/// The device for the process with `local_rank` on its host, of which it sees `visible_devices`:
/// one each, in order. One visible device is number 0 for everybody: Slurm and others show each
/// process only its own. Empty where there is none left.
std::optional<int> device_of(int local_rank, int visible_devices);

/// What the ranks tell each other about their devices. No pointers: it is sent as bytes.
struct RankDevice {
  std::array<char, 64> host{};
  int local_rank = 0;             ///< as MPI counts
  int launcher_local_rank = -1;   ///< as the launcher's variable says; -1: it says nothing
  int visible_devices = 0;        ///< how many this rank sees
  int device = -1;                ///< its number among them; -1: there was none left
  std::array<char, 33> uuid{};    ///< in hexadecimal
  bool simulated = false;         ///< the device says so in its name
  std::array<char, 512> error{};  ///< why it has no device at all; empty: it has
};

/// Why these ranks cannot train together, with what to do about it; empty where they can. `ranks`
/// are all of the job in their order. Two ranks on one device of one host are refused unless they
/// `may_share`: they would halve each other's speed, and NCCL would refuse later.
std::optional<std::string> device_error(std::span<const RankDevice> ranks, bool may_share);

}  // namespace ddp::mpi
