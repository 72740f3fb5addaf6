#pragma once

#include <memory>

#include "common/mpi/call_board.hpp"

namespace ddp::mpi {

/// How the ranks of a job come to their devices.
enum class DeviceUse {
  none,    ///< they use none
  own,     ///< each has one of its own
  shared,  ///< several may use one, which is for tests
};

/// MPI from its start to its end, on a device chosen before it (an MPI that knows CUDA looks at the
/// current device when it starts). In this order: the local rank from the launcher's variables, its
/// device (device_of), cudaSetDevice, MPI_Init_thread for calls from this thread alone
/// (MPI_THREAD_FUNNELED), MPI's own local rank to confirm, and a check that all ranks of the job
/// make with the same outcome (device_error).
///
/// An error is an AgreedError that all ranks throw alike. The destructor is for a job that has
/// ended well (MPI_Finalize waits for everybody); after a failure see end_job().
class Environment {
 public:
  /// `chosen_device` is for a job of one rank; others choose by their local ranks and refuse any
  /// but 0.
  explicit Environment(DeviceUse use, int chosen_device = 0);
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;
  ~Environment();

  int rank() const { return rank_; }
  int size() const { return size_; }
  int local_rank() const { return local_rank_; }
  int local_size() const { return local_size_; }
  /// The index of this rank's device among those that it sees; 0 with DeviceUse::none.
  int device() const { return device_; }
  bool simulated() const { return simulated_; }
  const CallBoard& board() const { return *board_; }

 private:
  int rank_ = 0;
  int size_ = 1;
  int local_rank_ = 0;
  int local_size_ = 1;
  int device_ = 0;
  bool simulated_ = false;
  std::unique_ptr<CallBoard> board_;
};

}  // namespace ddp::mpi
