#pragma once

#include <mpi.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "common/mpi/last_call.hpp"
#include "common/mpi/link.hpp"
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

class Communicator;

/// A message under way. It has to be waited for: until then its values belong to MPI.
class Request {
 public:
  Request() = default;
  /// Returns once the message has been received, or the values that were sent may change. A
  /// message of another length than that of the values is an error (PeerError). A second wait
  /// returns at once.
  void wait();

 private:
  friend class Communicator;
  std::int64_t bytes() const { return static_cast<std::int64_t>(count_ * size_); }
  struct OverLink;  // what a simulated link adds

  const Communicator* communicator_ = nullptr;
  MPI_Request request_ = MPI_REQUEST_NULL;
  CallKind kind_ = CallKind::none;
  int peer_ = 0;
  std::size_t count_ = 0;  // of elements of `size_` bytes
  std::size_t size_ = 1;
  std::shared_ptr<OverLink> over_link_;
};

/// A communicator of our own (MPI_Comm_dup: its messages never mix with anybody else's) over all
/// ranks of the job, and the one place where stages 03 and 04 send from. It counts what is sent and
/// received. Counts are 64-bit; a message has at most 2^31 - 1 elements, which is refused rather
/// than cut.
///
/// Every call in which a rank may wait for another is noted (last_call.hpp).
///
/// With SIMGPU_LINK=GB/s,us in the environment, messages take the time that they would take over a
/// network link of that bandwidth and latency at every rank (link.hpp); whoever waits sleeps. What
/// the link has to know of a message travels ahead of it and is not counted. MPI's own collectives
/// cost nothing there: they are no part of a step.
///
/// Pointers may be to host memory; to device memory only where takes_device_pointers() says so.
class Communicator final : public Ranks {
 public:
  /// Duplicates `ranks`: all of the job, or those of a test. Collective over them. Throws
  /// OptionError where SIMGPU_LINK is malformed.
  explicit Communicator(MPI_Comm ranks = MPI_COMM_WORLD);
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;
  ~Communicator() override;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::vector<std::string> all_gather(const std::string& text) const override;
  void set_step(std::int64_t step) const override { own_record().set_step(step); }
  void at_failure(std::function<void()> action) const override;
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

  /// Notes a collective of `bytes` bytes, by whatever library.
  void count_collective(std::size_t bytes) const {
    ++traffic_.collectives;
    traffic_.collective_bytes += static_cast<std::int64_t>(bytes);
  }

  /// Since the communicator was made.
  Traffic traffic() const override {
    Traffic traffic = traffic_;
    traffic.modelled_seconds = modelled_seconds();
    return traffic;
  }

  /// With a simulated link: the time that this rank's messages have taken so far, had nothing else
  /// taken any. It depends on the program alone, not on the machine. Without a link 0.
  double modelled_seconds() const { return link_ ? link_->modelled_seconds() : 0; }

 private:
  friend class Request;

  void send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
            int destination) const;
  void receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
               int source) const;
  Request start_send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                     int destination) const;
  Request start_receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                        int source) const;
  void finish(Request& request) const;
  void broadcast(void* values, std::size_t count, MPI_Datatype type, int root) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 1;
  // Counting, and the time that messages take, are no change of what the communicator does.
  mutable Traffic traffic_;
  std::unique_ptr<Link> link_;
};

/// Whether this MPI library may be given device pointers (MPIX_Query_cuda_support). Most builds,
/// Debian's among them, may not; then data goes through pinned host memory.
bool takes_device_pointers();

}  // namespace ddp::mpi
