#pragma once

#include <mpi.h>

#include <algorithm>
#include <span>

#include "common/mpi/check.hpp"

namespace ddp {

// One step of a ring, by blocking calls: every rank passes `outgoing` to its right neighbour and
// gets `incoming` from its left one. Both are collective.

inline void send_to(int rank, std::span<const float> values, MPI_Comm ring) {
  mpi::check(MPI_Send(values.data(), static_cast<int>(values.size()), MPI_FLOAT, rank, 0, ring));
}
inline void receive_from(int rank, std::span<float> values, MPI_Comm ring) {
  mpi::check(MPI_Recv(values.data(), static_cast<int>(values.size()), MPI_FLOAT, rank, 0, ring,
                      MPI_STATUS_IGNORE));
}

/// The obvious way, and a trap: MPI_Send may wait until the receiver asks for the message, and here
/// every receiver is itself in MPI_Send. Small messages pass, because MPI then keeps a copy and
/// returns early; MPI promises nobody that it will.
inline void send_then_receive(std::span<const float> outgoing, std::span<float> incoming,
                              MPI_Comm ring) {
  int rank = 0, ranks = 0;
  mpi::check(MPI_Comm_rank(ring, &rank));
  mpi::check(MPI_Comm_size(ring, &ranks));
  send_to((rank + 1) % ranks, outgoing, ring);
  receive_from((rank + ranks - 1) % ranks, incoming, ring);
}

/// The same without the trap, for messages of any size and any number of ranks.
inline void shift(std::span<const float> outgoing, std::span<float> incoming, MPI_Comm ring) {
  int rank = 0, ranks = 0;
  mpi::check(MPI_Comm_rank(ring, &rank));
  mpi::check(MPI_Comm_size(ring, &ranks));
  const int right = (rank + 1) % ranks, left = (rank + ranks - 1) % ranks;
  // [exercise 4.4] Break the circle of waiting ranks, with MPI_Send and MPI_Recv alone.
  // Even ranks send first, odd ranks receive first. With an odd number of ranks the last one and
  // rank 0 both send first; but rank 0's right neighbour is odd and receives, so rank 0 is free in
  // time. A circle in which one rank receives first cannot lock.
  if (ranks == 1) {
    std::copy(outgoing.begin(), outgoing.end(), incoming.begin());
  } else if (rank % 2 == 0) {
    send_to(right, outgoing, ring);
    receive_from(left, incoming, ring);
  } else {
    receive_from(left, incoming, ring);
    send_to(right, outgoing, ring);
  }
  // [/exercise]
}

}  // namespace ddp
