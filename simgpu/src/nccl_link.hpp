#pragma once

#include <chrono>
#include <cstdint>
#include <functional>

#include "nccl_call.hpp"

namespace simgpu::nccl {

/// The simulated network, SIMGPU_LINK=GB/s,us. An operation takes at least the time that a ring of
/// N ranks would need, of which each sends over a full-duplex link of its own, with b = all bytes
/// of the operation (of all ranks' rows together, where there are rows), s bytes a second and a
/// latency of l a step:
///
///     all-reduce                  2 (N-1) (l + b / N / s)
///     all-gather, reduce-scatter    (N-1) (l + b / N / s)
///     broadcast, reduce             (N-1) l + b / s          a chain that passes pieces on
///     sends and receives of a group    l + max(bytes sent, bytes received) / s
///
/// Time counts from when the values of all ranks are there. The operations of one device go over
/// its link one after another. The stream sleeps until then and leaves the cores to those who
/// compute.
double ring_seconds(const Call& call, int ranks);
double transfer_seconds(std::uint64_t bytes_sent, std::uint64_t bytes_received);

using Clock = std::chrono::steady_clock;

/// Takes the device's link for `seconds`, not before `start`; returns when it is free again.
Clock::time_point occupy_link(int device, Clock::time_point start, double seconds);

/// Sleeps until then, or until `give_up` says so.
void sleep_until(Clock::time_point end, const std::function<bool()>& give_up);

}  // namespace simgpu::nccl
