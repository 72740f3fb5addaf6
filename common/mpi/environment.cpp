#include "common/mpi/environment.hpp"

#include <cuda_runtime.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/errors.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/devices.hpp"
#include "common/mpi/failure.hpp"
#include "common/mpi/launcher.hpp"
#include "common/run/device.hpp"

namespace ddp::mpi {
namespace {

template <std::size_t size>
void copy_text(std::array<char, size>& to, std::string_view text) {
  const std::size_t length = std::min(text.size(), size - 1);
  std::copy_n(text.begin(), length, to.begin());
}

std::string uuid_text(const cudaUUID_t& uuid) {
  std::string text;
  for (const char byte : uuid.bytes) {
    std::array<char, 3> digits{};
    std::snprintf(digits.data(), digits.size(), "%02x", static_cast<unsigned char>(byte));
    text += digits.data();
  }
  return text;
}

// Makes the device of `local_rank` the current one and notes which it is. What goes wrong is noted
// as well: the ranks learn of it together, once MPI runs.
void take_device(RankDevice& own, int local_rank, DeviceUse use, int chosen_device) {
  try {
    if (cudaGetDeviceCount(&own.visible_devices) != cudaSuccess) own.visible_devices = 0;
    std::optional<int> device = device_of(local_rank, own.visible_devices);
    if (chosen_device != 0) device = chosen_device;
    if (!device && use == DeviceUse::shared && own.visible_devices > 0) {
      device = local_rank % own.visible_devices;
    }
    if (!device && own.visible_devices > 0) {
      own.simulated = select_device(0).simulated;  // so that the message can say which kind lacks
      return;
    }
    const Device selected = select_device(device.value_or(0));
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, selected.index) != cudaSuccess) {
      throw DeviceError("device " + std::to_string(selected.index) + " tells no properties");
    }
    own.device = selected.index;
    own.simulated = selected.simulated;
    copy_text(own.uuid, uuid_text(properties.uuid));
  } catch (const DeviceError& error) {
    copy_text(own.error, error.what());
  }
}

std::vector<RankDevice> gather(const RankDevice& own, int size) {
  std::vector<RankDevice> all(static_cast<std::size_t>(size));
  check(
      MPI_Allgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE, MPI_COMM_WORLD));
  return all;
}

}  // namespace

Environment::Environment(DeviceUse use, int chosen_device) {
  RankDevice own;
  const std::optional<int> local = launcher_local_rank();
  if (use != DeviceUse::none && local) take_device(own, *local, use, chosen_device);

  spare_a_rank_alone();
  int provided = MPI_THREAD_SINGLE;
  check(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided));
  check(MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(MPI_COMM_WORLD, &rank_));
  check(MPI_Comm_size(MPI_COMM_WORLD, &size_));
  board_ = std::make_unique<CallBoard>(MPI_COMM_WORLD);
  join_job(rank_, board_.get());
  if (provided < MPI_THREAD_FUNNELED) {
    throw AgreedError(ExitCode::peer,
                      "this MPI library allows no other threads beside the one that calls it "
                      "(MPI_THREAD_FUNNELED); streams are threads");
  }
  MPI_Comm host = MPI_COMM_NULL;
  check(MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host));
  check(MPI_Comm_rank(host, &local_rank_));
  check(MPI_Comm_size(host, &local_size_));
  check(MPI_Comm_free(&host));
  if (use == DeviceUse::none) return;

  if (!local) take_device(own, local_rank_, use, chosen_device);
  if (size_ > 1 && chosen_device != 0) {
    throw AgreedError(ExitCode::bad_option,
                      "--device is for one rank; several take their devices in order. "
                      "CUDA_VISIBLE_DEVICES says which there are");
  }
  std::array<char, 64> host_name{};
  gethostname(host_name.data(), host_name.size() - 1);
  own.host = host_name;
  own.local_rank = local_rank_;
  own.launcher_local_rank = local.value_or(-1);
  const std::vector<RankDevice> all = gather(own, size_);
  if (const auto error = device_error(all, use == DeviceUse::shared)) {
    throw AgreedError(ExitCode::device, *error);
  }
  const auto is_simulated = [](const RankDevice& device) { return device.simulated; };
  if (std::getenv("SIMGPU_LINK") != nullptr && !std::all_of(all.begin(), all.end(), is_simulated)) {
    throw AgreedError(ExitCode::bad_option, "SIMGPU_LINK is for simulated GPUs; these are real");
  }
  device_ = own.device;
  simulated_ = own.simulated;
}

Environment::~Environment() {
  leave_job();
  board_.reset();
  MPI_Finalize();
}

}  // namespace ddp::mpi
