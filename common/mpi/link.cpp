#include "common/mpi/link.hpp"

#include <time.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <string>

#include "common/errors.hpp"

namespace ddp::mpi {
namespace {

double real_now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

void sleep_until(double seconds) {
  timespec until{};
  until.tv_sec = static_cast<time_t>(seconds);
  until.tv_nsec = static_cast<long>((seconds - static_cast<double>(until.tv_sec)) * 1e9);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, nullptr) != 0) {
  }
}

[[noreturn]] void refuse(std::string_view text) {
  throw OptionError("SIMGPU_LINK is '" + std::string(text) +
                    "'; it must be GB/s,us: a bandwidth above 0 and a latency of at least 0, for "
                    "instance 1,50");
}

std::optional<double> finite_number(std::string_view text) {
  double value = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end || !std::isfinite(value)) return std::nullopt;
  return value;
}

}  // namespace

LinkSpeed parse_link(std::string_view text) {
  constexpr double giga = 1e9;
  constexpr double micro = 1e-6;
  constexpr double least_gigabytes = 1e-6;  // 1 KB/s: anything slower is a mistake
  constexpr double most_microseconds = 60e6;
  const std::size_t comma = text.find(',');
  if (comma == text.npos) refuse(text);
  const auto gigabytes = finite_number(text.substr(0, comma));
  const auto microseconds = finite_number(text.substr(comma + 1));
  if (!gigabytes || *gigabytes < least_gigabytes) refuse(text);
  if (!microseconds || *microseconds < 0 || *microseconds > most_microseconds) refuse(text);
  return {*gigabytes * giga, *microseconds * micro};
}

std::optional<LinkSpeed> link_from_environment() {
  const char* const text = std::getenv("SIMGPU_LINK");
  if (text == nullptr) return std::nullopt;
  return parse_link(text);
}

void LinkClock::advance_to(double seconds) { now_ = std::max(now_, seconds); }

LinkClock::Departure LinkClock::send(std::int64_t bytes) {
  const double start = std::max(now_, outgoing_free_);
  outgoing_free_ = start + static_cast<double>(bytes) / speed_.bytes_per_second;
  return {start, outgoing_free_};
}

double LinkClock::receive(double start, std::int64_t bytes) {
  const double first = std::max(start + speed_.latency_seconds, incoming_free_);
  incoming_free_ = first + static_cast<double>(bytes) / speed_.bytes_per_second;
  return incoming_free_;
}

Link::Sending Link::send(std::int64_t bytes) {
  real_.advance_to(real_now());
  const LinkClock::Departure modelled = modelled_.send(bytes);
  const LinkClock::Departure real = real_.send(bytes);
  return {{modelled.start, real.start}, modelled.left, real.left};
}

void Link::wait(const Sending& sending) {
  modelled_.advance_to(sending.modelled_left);
  sleep_until(sending.real_left);
}

void Link::receive(const LinkHeader& header, std::int64_t bytes) {
  modelled_.advance_to(modelled_.receive(header.modelled_start, bytes));
  sleep_until(real_.receive(header.real_start, bytes));
}

void doze() {
  const timespec time{0, 20'000};
  nanosleep(&time, nullptr);
}

}  // namespace ddp::mpi
