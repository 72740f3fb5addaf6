#include "settings.hpp"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

namespace simgpu {
namespace {

[[noreturn]] void refuse(const char* name, std::string_view value, const char* expected) {
  std::fprintf(stderr, "simgpu: %s=%.*s: expected %s\n", name, static_cast<int>(value.size()),
               value.data(), expected);
  std::_Exit(2);
}

template <class T>
std::optional<T> number(std::string_view text) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

/// "name:SEED" gives the seed.
std::optional<std::uint64_t> seed_after(std::string_view text, std::string_view name) {
  if (!text.starts_with(name)) return std::nullopt;
  return number<std::uint64_t>(text.substr(name.size()));
}

void read_schedule(Settings& settings, std::string_view text) {
  if (text == "async") return;
  if (text == "eager") {
    settings.schedule = Schedule::eager;
  } else if (const auto seed = seed_after(text, "delays:")) {
    settings.schedule = Schedule::delays;
    settings.delay_seed = *seed;
  } else {
    refuse("SIMGPU_SCHEDULE", text, "async, eager or delays:SEED");
  }
}

void read_order(Settings& settings, std::string_view text) {
  if (text == "forward") return;
  if (text == "reverse") {
    settings.order = ThreadOrder::reverse;
  } else if (const auto seed = seed_after(text, "random:")) {
    settings.order = ThreadOrder::random;
    settings.order_seed = *seed;
  } else {
    refuse("SIMGPU_THREAD_ORDER", text, "forward, reverse or random:SEED");
  }
}

/// As CUDA reads it: indices up to the first that names no device.
std::vector<int> visible(std::string_view text, int count) {
  std::vector<int> devices;
  while (!text.empty()) {
    const std::string_view item = text.substr(0, text.find(','));
    const auto index = number<int>(item);
    if (!index || *index < 0 || *index >= count) break;
    devices.push_back(*index);
    text.remove_prefix(item.size() < text.size() ? item.size() + 1 : item.size());
  }
  return devices;
}

std::optional<double> number_between(std::string_view text, double least, double most) {
  const auto value = number<double>(text);
  // The comparison is false for NaN too.
  return value && *value >= least && *value <= most ? value : std::nullopt;
}

LinkSpeed read_link(std::string_view text) {
  const auto comma = text.find(',');
  if (comma != text.npos) {
    const auto gigabytes = number_between(text.substr(0, comma), 1e-6, 1e100);
    const auto microseconds = number_between(text.substr(comma + 1), 0, 60e6);
    if (gigabytes && microseconds) return {*gigabytes * 1e9, *microseconds * 1e-6};
  }
  refuse("SIMGPU_LINK", text,
         "GB/s,us: a bandwidth above 0 and a latency of at least 0, for instance 1,50");
}

ComputeCapability read_compute_capability(std::string_view text) {
  if (const auto point = text.find('.'); point != text.npos) {
    const auto major = number<int>(text.substr(0, point)),
               minor = number<int>(text.substr(point + 1));
    // CUDA 13 knows none before 7.5.
    if (major && minor && *major <= 99 && *minor >= 0 && *minor <= 9 &&
        *major * 10 + *minor >= 75) {
      return {*major, *minor};
    }
  }
  refuse("SIMGPU_COMPUTE_CAPABILITY", text, "MAJOR.MINOR, at least 7.5, for instance 8.0");
}

void read_nccl(Settings& settings, std::string_view text) {
  if (text == "silent") return;
  if (text != "diagnose") refuse("SIMGPU_NCCL", text, "silent or diagnose");
  settings.nccl = Nccl::diagnose;
}

Settings read_environment() {
  Settings settings;
  if (const char* text = std::getenv("SIMGPU_SCHEDULE")) read_schedule(settings, text);
  if (const char* text = std::getenv("SIMGPU_THREAD_ORDER")) read_order(settings, text);

  int count = 8;
  if (const char* text = std::getenv("SIMGPU_DEVICES")) {
    const auto value = number<int>(text);
    if (!value || *value < 0 || *value > 64) {
      refuse("SIMGPU_DEVICES", text, "a number from 0 to 64");
    }
    count = *value;
  }
  for (int i = 0; i < count; ++i) settings.devices.push_back(i);
  if (const char* text = std::getenv("CUDA_VISIBLE_DEVICES")) {
    settings.devices = visible(text, count);
  }

  std::size_t megabytes = 8192;
  if (const char* text = std::getenv("SIMGPU_MEMORY_MB")) {
    const auto value = number<std::size_t>(text);
    if (!value || *value < 1 || *value > (1u << 20)) {
      refuse("SIMGPU_MEMORY_MB", text, "a number from 1 to 1048576");
    }
    megabytes = *value;
  }
  settings.device_memory = megabytes << 20;

  if (const char* text = std::getenv("SIMGPU_COMPUTE_CAPABILITY")) {
    settings.compute_capability = read_compute_capability(text);
  }
  if (const char* text = std::getenv("SIMGPU_LEAKS")) {
    settings.report_leaks = std::string_view(text) != "0";
  }
  if (const char* text = std::getenv("SIMGPU_NCCL")) read_nccl(settings, text);
  return settings;
}

}  // namespace

const Settings& settings() {
  static const Settings& read = *new Settings(read_environment());  // threads may outlive main
  return read;
}

const std::optional<LinkSpeed>& link_setting() {
  static const std::optional<LinkSpeed> read = [] {
    const char* const text = std::getenv("SIMGPU_LINK");
    return text == nullptr ? std::nullopt : std::optional(read_link(text));
  }();
  return read;
}

}  // namespace simgpu
