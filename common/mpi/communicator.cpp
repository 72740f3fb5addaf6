#include "common/mpi/communicator.hpp"

#if __has_include(<mpi-ext.h>)
#include <mpi-ext.h>  // Open MPI's own; other libraries may lack it
#endif

#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "common/errors.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/failure.hpp"

namespace ddp::mpi {
namespace {

constexpr int message_tag = 0;
constexpr int link_header_tag = 1;

int int_count(std::size_t count) {
  if (count > static_cast<std::size_t>(std::numeric_limits<int>::max())) {
    throw PeerError("a message of " + std::to_string(count) +
                    " elements: MPI counts up to 2147483647");
  }
  return static_cast<int>(count);
}

void check_length(const MPI_Status& status, int source, int rank, std::size_t expected,
                  std::size_t size) {
  int bytes = 0;
  check(MPI_Get_count(&status, MPI_BYTE, &bytes));
  if (static_cast<std::size_t>(bytes) == expected * size) return;
  throw PeerError("rank " + std::to_string(source) + " sent " +
                  std::to_string(static_cast<std::size_t>(bytes) / size) + " elements, rank " +
                  std::to_string(rank) + " expected " + std::to_string(expected));
}

// MPI_Wait would keep a core busy.
MPI_Status doze_until_done(MPI_Request& request) {
  MPI_Status status;
  int done = 0;
  check(MPI_Test(&request, &done, &status));
  while (done == 0) {
    doze();
    check(MPI_Test(&request, &done, &status));
  }
  return status;
}

}  // namespace

struct Request::OverLink {
  Link::Sending sending{};
  LinkHeader header{};  // of a message that is to come
  MPI_Request header_request = MPI_REQUEST_NULL;
};

void Request::wait() {
  if (communicator_ != nullptr) communicator_->finish(*this);
}

Communicator::Communicator(MPI_Comm ranks) {
  if (const std::optional<LinkSpeed> speed = link_from_environment()) {
    link_ = std::make_unique<Link>(*speed);
  }
  check(MPI_Comm_dup(ranks, &comm_));
  check(MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN));
  check(MPI_Comm_rank(comm_, &rank_));
  check(MPI_Comm_size(comm_, &size_));
}

Communicator::~Communicator() { MPI_Comm_free(&comm_); }

std::vector<std::string> Communicator::all_gather(const std::string& text) const {
  const int length = int_count(text.size());
  const Call call(CallKind::all_gather, everyone, length);
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

void Communicator::at_failure(std::function<void()> action) const {
  mpi::at_failure(std::move(action));
}

void Communicator::barrier() const {
  const Call call(CallKind::barrier, everyone, 0);
  check(MPI_Barrier(comm_));
}

void Communicator::send(const void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                        int destination) const {
  if (link_) return start_send(values, count, size, type, destination).wait();
  const auto bytes = static_cast<std::int64_t>(count * size);
  ++traffic_.messages_sent;
  traffic_.bytes_sent += bytes;
  const Call call(CallKind::send, destination, bytes);
  check(MPI_Send(values, int_count(count), type, destination, message_tag, comm_));
}

void Communicator::receive(void* values, std::size_t count, std::size_t size, MPI_Datatype type,
                           int source) const {
  if (link_) return start_receive(values, count, size, type, source).wait();
  const auto bytes = static_cast<std::int64_t>(count * size);
  ++traffic_.messages_received;
  traffic_.bytes_received += bytes;
  const Call call(CallKind::receive, source, bytes);
  MPI_Status status;
  check(MPI_Recv(values, int_count(count), type, source, message_tag, comm_, &status));
  check_length(status, source, rank_, count, size);
}

Request Communicator::start_send(const void* values, std::size_t count, std::size_t size,
                                 MPI_Datatype type, int destination) const {
  Request request;
  request.communicator_ = this;
  request.kind_ = CallKind::wait_send;
  request.peer_ = destination;
  request.count_ = count;
  request.size_ = size;
  ++traffic_.messages_sent;
  traffic_.bytes_sent += request.bytes();
  if (link_) {
    request.over_link_ = std::make_shared<Request::OverLink>();
    Request::OverLink& over_link = *request.over_link_;
    over_link.sending = link_->send(request.bytes());
    // Small enough that MPI keeps a copy and returns at once.
    check(MPI_Send(&over_link.sending.header, sizeof(LinkHeader), MPI_BYTE, destination,
                   link_header_tag, comm_));
  }
  check(MPI_Isend(values, int_count(count), type, destination, message_tag, comm_,
                  &request.request_));
  return request;
}

Request Communicator::start_receive(void* values, std::size_t count, std::size_t size,
                                    MPI_Datatype type, int source) const {
  Request request;
  request.communicator_ = this;
  request.kind_ = CallKind::wait_receive;
  request.peer_ = source;
  request.count_ = count;
  request.size_ = size;
  ++traffic_.messages_received;
  traffic_.bytes_received += request.bytes();
  if (link_) {
    request.over_link_ = std::make_shared<Request::OverLink>();
    Request::OverLink& over_link = *request.over_link_;
    check(MPI_Irecv(&over_link.header, sizeof(LinkHeader), MPI_BYTE, source, link_header_tag, comm_,
                    &over_link.header_request));
  }
  check(MPI_Irecv(values, int_count(count), type, source, message_tag, comm_, &request.request_));
  return request;
}

void Communicator::finish(Request& request) const {
  const Request finished = std::exchange(request, {});
  MPI_Request mpi_request = finished.request_;
  const bool receives = finished.kind_ == CallKind::wait_receive;
  const Call call(finished.kind_, finished.peer_, finished.bytes());
  MPI_Status status;
  if (link_) {
    Request::OverLink& over_link = *finished.over_link_;
    doze_until_done(over_link.header_request);
    status = doze_until_done(mpi_request);
    if (receives) {
      link_->receive(over_link.header, finished.bytes());
    } else {
      link_->wait(over_link.sending);
    }
  } else {
    check(MPI_Wait(&mpi_request, &status));
  }
  if (receives) check_length(status, finished.peer_, rank_, finished.count_, finished.size_);
}

void Communicator::broadcast(void* values, std::size_t count, MPI_Datatype type, int root) const {
  int size = 0;
  check(MPI_Type_size(type, &size));
  const Call call(CallKind::broadcast, root, static_cast<std::int64_t>(count) * size);
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
