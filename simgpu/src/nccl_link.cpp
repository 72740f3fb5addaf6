#include "nccl_link.hpp"

#include <algorithm>
#include <array>
#include <thread>

#include "nccl_shared.hpp"
#include "quiet_mutex.hpp"
#include "settings.hpp"

namespace simgpu::nccl {

double ring_seconds(const Call& call, int ranks) {
  const auto& link = link_setting();
  if (!link || ranks == 1) return 0;
  const double steps = ranks - 1;
  const double one = static_cast<double>(call.count * size_of(call.type)) / link->bytes_per_second;
  switch (call.kind) {
    case Kind::all_reduce:
      return 2 * steps * (link->latency_seconds + one / ranks);
    case Kind::all_gather:
    case Kind::reduce_scatter:
      return steps * (link->latency_seconds + one);  // the count is that of a row
    case Kind::broadcast:
    case Kind::reduce:
      return steps * link->latency_seconds + one;
    case Kind::send:
    case Kind::receive:
      break;
  }
  return 0;
}

double transfer_seconds(std::uint64_t bytes_sent, std::uint64_t bytes_received) {
  const auto& link = link_setting();
  const std::uint64_t bytes = std::max(bytes_sent, bytes_received);
  if (!link || bytes == 0) return 0;
  return link->latency_seconds + static_cast<double>(bytes) / link->bytes_per_second;
}

Clock::time_point occupy_link(int device, Clock::time_point start, double seconds) {
  static QuietMutex mutex;
  static std::array<Clock::time_point, max_ranks> free_from{};
  QuietLock lock(mutex);
  Clock::time_point& from = free_from[static_cast<std::size_t>(device)];
  from = std::max(from, start) +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  return from;
}

void sleep_until(Clock::time_point end, const std::function<bool()>& give_up) {
  constexpr auto nap = std::chrono::milliseconds(nap_milliseconds);
  for (auto now = Clock::now(); now < end && !give_up(); now = Clock::now()) {
    std::this_thread::sleep_until(std::min(end, now + nap));
  }
}

}  // namespace simgpu::nccl
