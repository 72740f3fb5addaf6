#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace ddp::mpi {

/// Bandwidth and latency of a network link.
struct LinkSpeed {
  double bytes_per_second;
  double latency_seconds;
};

/// Reads the value of SIMGPU_LINK, "GB/s,us": 1 GB is 1e9 bytes. Throws OptionError.
LinkSpeed parse_link(std::string_view text);
/// What SIMGPU_LINK says; empty where it is not set. Throws OptionError.
std::optional<LinkSpeed> link_from_environment();

/// One rank's full-duplex link to a network without limits of its own, seen by one clock, in
/// seconds from 0. What is sent leaves in a row, what arrives comes in a row:
///
///     leaves:  start   = max(the clock, the end of the message before)
///              left    = start + bytes / bandwidth
///     arrives: arrived = max(start + latency, the end of the arrival before) + bytes / bandwidth
///
/// The first bytes of a message arrive while its last ones leave, so that a lone message takes
/// latency + bytes / bandwidth. Arrivals are lined up in the order in which they are received.
class LinkClock {
 public:
  explicit LinkClock(LinkSpeed speed) : speed_(speed) {}

  double now() const { return now_; }
  /// The clock never goes back.
  void advance_to(double seconds);

  struct Departure {
    double start;  ///< when the first byte leaves
    double left;   ///< when the last one has left; the sender's values are free then
  };
  Departure send(std::int64_t bytes);
  /// When a message that began to leave at `start` has arrived in full.
  double receive(double start, std::int64_t bytes);

 private:
  LinkSpeed speed_;
  double now_ = 0;
  double outgoing_free_ = 0;
  double incoming_free_ = 0;
};

/// What travels ahead of a message over a simulated link: when it began to leave.
struct LinkHeader {
  double modelled_start;
  double real_start;
};

/// A rank's simulated link. It keeps two clocks: a modelled one, on which only messages take time,
/// so that it shows the same whenever the program runs; and the real one, by which a rank sleeps
/// until its message would have left or arrived, so that computing overlaps with it.
class Link {
 public:
  explicit Link(LinkSpeed speed) : modelled_(speed), real_(speed) {}

  struct Sending {
    LinkHeader header;
    double modelled_left;
    double real_left;
  };
  Sending send(std::int64_t bytes);
  /// Returns when the message has left.
  void wait(const Sending& sending);
  /// Returns when the message has arrived.
  void receive(const LinkHeader& header, std::int64_t bytes);

  double modelled_seconds() const { return modelled_.now(); }

 private:
  LinkClock modelled_;
  LinkClock real_;  // CLOCK_MONOTONIC, which the ranks of a host share
};

/// Sleeps for about 20 us: what a rank does between two looks for a message, so that waiting leaves
/// the cores to those who compute.
void doze();

}  // namespace ddp::mpi
