#include "common/run/fault.hpp"

#include <array>
#include <charconv>
#include <csignal>
#include <cstdlib>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "common/errors.hpp"

namespace ddp {
namespace {

using Kind = Fault::Kind;
constexpr std::array<std::pair<std::string_view, Kind>, 7> kinds = {
    {{"throw", Kind::throw_exception},
     {"return", Kind::error_return},
     {"kill", Kind::kill},
     {"stall", Kind::stall},
     {"nan", Kind::nan},
     {"inf", Kind::inf},
     {"delay-ms", Kind::delay}}};
constexpr std::chrono::minutes stall_time{5};

[[noreturn]] void refuse(std::string_view text, const std::string& reason) {
  throw OptionError(
      "DDP_FAULT is '" + std::string(text) + "': " + reason +
      "; the form is rank:step:kind with kind one of throw, return, kill, stall, nan, "
      "inf, delay-ms:MS, for instance 0:3:throw");
}

std::vector<std::string_view> split(std::string_view text) {
  std::vector<std::string_view> parts;
  for (std::size_t colon = text.find(':'); colon != text.npos; colon = text.find(':')) {
    parts.push_back(text.substr(0, colon));
    text.remove_prefix(colon + 1);
  }
  parts.push_back(text);
  return parts;
}

std::optional<std::int64_t> whole_number(std::string_view text, std::int64_t least) {
  std::int64_t value = 0;
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || stop != text.data() + text.size() || value < least) return {};
  return value;
}

bool happens_at(const std::optional<Fault>& fault, std::int64_t step) {
  return fault && fault->step == step;
}

}  // namespace

Fault parse_fault(std::string_view text, int world_size) {
  const std::vector<std::string_view> parts = split(text);
  if (parts.size() < 3) refuse(text, "it has too few parts");
  const auto rank = whole_number(parts[0], 0);
  if (!rank) refuse(text, "the rank must be a whole number");
  if (*rank >= world_size) {
    refuse(text,
           "there is no rank " + std::to_string(*rank) + " among " + std::to_string(world_size));
  }
  const auto step = whole_number(parts[1], 1);
  if (!step) refuse(text, "the step must be a whole number of at least 1");
  for (const auto& [name, kind] : kinds) {
    if (name != parts[2]) continue;
    Fault fault{static_cast<int>(*rank), *step, kind};
    if (parts.size() != (kind == Kind::delay ? 4u : 3u)) refuse(text, "wrong number of parts");
    if (kind == Kind::delay) {
      const auto delay = whole_number(parts[3], 0);
      constexpr std::int64_t longest = 24 * 60 * 60 * 1000;
      if (!delay || *delay > longest) refuse(text, "the delay must be milliseconds, at most a day");
      fault.delay = std::chrono::milliseconds(*delay);
    }
    return fault;
  }
  refuse(text, "there is no kind '" + std::string(parts[2]) + "'");
}

std::optional<Fault> fault_from_environment(int rank, int world_size) {
  const char* const text = std::getenv("DDP_FAULT");
  if (text == nullptr) return std::nullopt;
  const Fault fault = parse_fault(text, world_size);
  if (fault.rank != rank) return std::nullopt;
  return fault;
}

std::optional<double> faulty_input(const std::optional<Fault>& fault, std::int64_t step) {
  if (!happens_at(fault, step)) return std::nullopt;
  if (fault->kind == Kind::nan) return std::numeric_limits<double>::quiet_NaN();
  if (fault->kind == Kind::inf) return std::numeric_limits<double>::infinity();
  return std::nullopt;
}

void trigger(const std::optional<Fault>& fault, std::int64_t step) {
  if (!happens_at(fault, step)) return;
  const std::string where =
      "rank " + std::to_string(fault->rank) + ", step " + std::to_string(step) + ": DDP_FAULT ";
  switch (fault->kind) {
    case Kind::throw_exception:
      throw std::runtime_error(where + "throws");
    case Kind::error_return:
      throw InputError(where + "takes the path of a file that cannot be read");
    case Kind::kill:
      std::raise(SIGKILL);
      break;
    case Kind::stall:
      std::this_thread::sleep_for(stall_time);
      break;
    case Kind::delay:
      std::this_thread::sleep_for(fault->delay);
      break;
    case Kind::nan:
    case Kind::inf:
      break;  // planted when the batch was gathered
  }
}

}  // namespace ddp
