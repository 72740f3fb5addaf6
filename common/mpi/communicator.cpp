#include "common/mpi/communicator.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // Open MPI's own; other libraries may lack it
#endif

#include <limits>
#include <numeric>

#include "common/errors.hpp"
#include "common/mpi/check.hpp"

namespace ddp::mpi {
namespace {

constexpr int message_tag = 0;

int int_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw PeerError("a message of " + std::to_string(count) +
                    " elements: MPI counts up to 2147483647");
  }
  return static_cast<int>(count);
}

}  // namespace

void Request::wait() { check(MPI_Wait(&request_, MPI_STATUS_IGNORE)); }

Communicator::Communicator() {
  check(MPI_Comm_dup(MPI_COMM_WORLD, &comm_));
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(comm_, &rank_));
  check(MPI_Comm_size(comm_, &size_));
}

Communicator::~Communicator() { MPI_Comm_free(&comm_); }

std::vector<std::string> Communicator::all_gather(const std::string& text) const {
  const int length = int_count(text.size());
  std::vector<int> lengths(static_cast<std::size_t>(size_));
  check(MPI_Allgather(&length, 1, MPI_INT, lengths.data(), 1, MPI_INT, comm_));
  std::vector<int> offsets(lengths.size());
  std::exclusive_scan(lengths.begin(), lengths.end(), offsets.begin(), 0);
  std::string all(static_cast<std::size_t>(offsets.back() + lengths.back()), '\0');
  check(MPI_Allgatherv(text.data(), length, MPI_CHAR, all.data(), lengths.data(), offsets.data(),
                       MPI_CHAR, comm_));
  std::vector<std::string> texts;
  for (std::size_t r = 0; r < lengths.size(); ++r) {
    texts.push_back(
        all.substr(static_cast<std::size_t>(offsets[r]), static_cast<std::size_t>(lengths[r])));
  }
  return texts;
}

void Communicator::barrier() const { check(MPI_Barrier(comm_)); }

void Communicator::send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                        int destination) const {
  ++traffic_.messages_sent;
  traffic_.bytes_sent += static_cast<std::int64_t>(count * size);
  check(MPI_Send(values, int_count(count), type, destination, message_tag, comm_));
}

void Communicator::receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                           int source) const {
  MPI_Status status;
  check(MPI_Recv(values, int_count(count), type, source, message_tag, comm_, &status));
  int received = 0;
  check(MPI_Get_count(&status, type, &received));
  if (static_cast<std::size_t>(received) != count) {
    throw PeerError("rank " + std::to_string(source) + " sent " + std::to_string(received) +
                    " elements, rank " + std::to_string(rank_) + " expected " +
                    std::to_string(count));
  }
  ++traffic_.messages_received;
  traffic_.bytes_received += static_cast<std::int64_t>(count * size);
}

Request Communicator::start_send(const void* values, std::size_t count, std::size_t size,
                                 MPI_Datatype type, int destination) const {
  ++traffic_.messages_sent;
  traffic_.bytes_sent += static_cast<std::int64_t>(count * size);
  Request request;
  check(MPI_Isend(values, int_count(count), type, destination, message_tag, comm_,
                  &request.request_));
  return request;
}

Request Communicator::start_receive(void* values, std::size_t count, std::size_t size,
                                    MPI_Datatype type, int source) const {
  ++traffic_.messages_received;
  traffic_.bytes_received += static_cast<std::int64_t>(count * size);
  Request request;
  check(MPI_Irecv(values, int_count(count), type, source, message_tag, comm_, &request.request_));
  return request;
}

void Communicator::broadcast(void* values, std::size_t count, MPI_Datatype type, int root) const {
  check(MPI_Bcast(values, int_count(count), type, root, comm_));
}

bool takes_device_pointers() {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
  return MPIX_Query_cuda_support() == 1;
#else
  return false;
#endif
}

}  // namespace ddp::mpi
