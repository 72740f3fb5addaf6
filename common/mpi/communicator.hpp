#pragma once

#include <mpi.h>

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "common/run/ranks.hpp"

namespace ddp::mpi {

// MPI's name for an element's type.
template <class T>
MPI_Datatype datatype();
template <>
inline MPI_Datatype datatype<float>() {
  return MPI_FLOAT;
}
template <>
inline MPI_Datatype datatype<double>() {
  return MPI_DOUBLE;
}
template <>
inline MPI_Datatype datatype<std::byte>() {
  return MPI_BYTE;
}

/// A message under way. It has to be waited for: until then its values belong to MPI.
class Request {
 public:
  Request() = default;
  /// Returns once the message has been received, or the values that were sent may change.
  void wait();

 private:
  friend class Communicator;
  MPI_Request request_ = MPI_REQUEST_NULL;
};

/// A communicator of our own (MPI_Comm_dup: its messages never mix with anybody else's) over all
/// ranks of the job, and the one place where stages 03 and 04 send from. It counts what is sent and
/// received. Counts are 64-bit; a message has at most 2^31 - 1 elements, which is refused rather
/// than cut.
///
/// Pointers may be to host memory; to device memory only where takes_device_pointers() says so.
class Communicator final : public Ranks {
 public:
  /// Duplicates MPI_COMM_WORLD. Collective.
  Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> all_gather(const std::string& text) const override;
  MPI_Comm handle() const { return comm_; }

  /// MPI_Send: returns when the values may change. For a large message that is only when the
  /// receiver has asked for it.
  template <class T>
  void send(std::span<const T> values, int destination) const {
    send(values.data(), values.size(), sizeof(T), datatype<T>(), destination);
  }
  /// MPI_Recv: returns when all `values` have come. A message of another length is an error.
  template <class T>
  void receive(std::span<T> values, int source) const {
    receive(values.data(), values.size(), sizeof(T), datatype<T>(), source);
  }
  /// MPI_Isend and MPI_Irecv: return at once; see Request.
  template <class T>
  Request start_send(std::span<const T> values, int destination) const {
    return start_send(values.data(), values.size(), sizeof(T), datatype<T>(), destination);
  }
  template <class T>
  Request start_receive(std::span<T> values, int source) const {
    return start_receive(values.data(), values.size(), sizeof(T), datatype<T>(), source);
  }

  /// MPI_Bcast from `root`. Not counted: it is no part of a step.
  template <class T>
  void broadcast(std::span<T> values, int root) const {
    broadcast(values.data(), values.size(), datatype<T>(), root);
  }
  void barrier() const;

  /// Since the communicator was made.
  Traffic traffic() const override { return traffic_; }

 private:
  void send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
            int destination) const;
  void receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
               int source) const;
  Request start_send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                     int destination) const;
  Request start_receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                        int source) const;
  void broadcast(void* values, std::size_t count, MPI_Datatype type, int root) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  mutable Traffic traffic_;  // counting is no change that a caller could see
};

/// Whether this MPI library may be given device pointers (MPIX_Query_cuda_support). Most builds,
/// Debian's among them, may not; then data goes through pinned host memory.
bool takes_device_pointers();

}  // namespace ddp::mpi
