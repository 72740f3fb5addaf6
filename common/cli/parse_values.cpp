#include "common/cli/parse_values.hpp"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <limits>
#include <optional>

namespace ddp {
namespace {

constexpr std::size_t most_layers = 256;
constexpr int largest_layer = 65536;

// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> number(std::string_view text) {
  Number value{};
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

bool in_range(double value, NumberRange range) {
  switch (range) {
    case NumberRange::positive:
      return value > 0;
    case NumberRange::not_negative:
      return value >= 0;
    case NumberRange::below_one:
      return value >= 0 && value < 1;
  }
  return false;
}

std::string_view describe(NumberRange range) {
  switch (range) {
    case NumberRange::positive:
      return "a finite number above 0";
    case NumberRange::not_negative:
      return "a finite number of at least 0";
    case NumberRange::below_one:
      return "a number of at least 0 and below 1";
  }
  return "";
}

}  // namespace

void refuse_value(std::string_view option, std::string_view text, std::string_view allowed) {
  throw OptionError(fmt::format("{} is '{}'; it must be {}", option, text, allowed));
}

std::int64_t parse_integer(std::string_view option, std::string_view text, std::int64_t least,
                           std::int64_t most) {
  const std::optional value = number<std::int64_t>(text);
  if (!value || *value < least || *value > most) {
    refuse_value(option, text, fmt::format("a whole number from {} to {}", least, most));
  }
  return *value;
}

std::uint64_t parse_seed(std::string_view option, std::string_view text) {
  const std::optional value = number<std::uint64_t>(text);
  if (!value) {
    refuse_value(
        option, text,
        fmt::format("a whole number from 0 to {}", std::numeric_limits<std::uint64_t>::max()));
  }
  return *value;
}

double parse_number(std::string_view option, std::string_view text, NumberRange range) {
  const std::optional value = number<double>(text);
  if (!value || !std::isfinite(*value) || !in_range(*value, range)) {
    refuse_value(option, text, describe(range));
  }
  return *value;
}

std::vector<int> parse_layers(std::string_view option, std::string_view text) {
  const auto refuse = [&] {
    refuse_value(option, text,
                 fmt::format("2 to {} sizes from 1 to {} joined by '-', such as 784-512-256-10; "
                             "512x8 repeats a size",
                             most_layers, largest_layer));
  };
  std::vector<int> layers;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('-', begin), text.size());
    const std::string_view part = text.substr(begin, end - begin);
    const std::size_t cross = part.find('x');
    const std::optional size = number<int>(part.substr(0, cross));
    const std::optional repeats =
        cross == part.npos ? std::optional(1) : number<int>(part.substr(cross + 1));
    if (!size || *size < 1 || *size > largest_layer || !repeats || *repeats < 1) refuse();
    if (static_cast<std::size_t>(*repeats) > most_layers - layers.size()) refuse();
    layers.insert(layers.end(), static_cast<std::size_t>(*repeats), *size);
    begin = end + 1;
  }
  if (layers.size() < 2) refuse();
  return layers;
}

}  // namespace ddp
