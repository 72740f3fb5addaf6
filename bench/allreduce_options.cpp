#include "bench/allreduce_options.hpp"

#include <cmath>
#include <limits>
#include <optional>
#include <sstream>

#include "common/cli/option_table.hpp"
#include "common/cli/parse_values.hpp"
#include "common/errors.hpp"
#include "common/io/version.hpp"

namespace ddp::bench {
namespace {

/// 4096, 64K, 16M, 1G.
std::size_t parse_size(const std::string& option, const std::string& text) {
  std::size_t digits = 0;
  double value = -1;
  try {
    value = std::stod(text, &digits);
  } catch (const std::exception&) {
    digits = 0;
  }
  const std::string suffix = text.substr(digits);
  const double unit = suffix.empty()                   ? 1
                      : suffix == "K" || suffix == "k" ? 1024
                      : suffix == "M" || suffix == "m" ? 1048576
                      : suffix == "G" || suffix == "g" ? 1073741824
                                                       : -1;
  const double bytes = value * unit;
  if (digits == 0 || unit < 0 || !(bytes >= 0) || bytes > 1e12 || bytes != std::floor(bytes)) {
    throw OptionError(option + " is '" + text + "'; expected bytes, such as 4096, 64K, 16M or 1G");
  }
  return static_cast<std::size_t>(bytes);
}

/// mpi:ALGORITHM[:SEGMENT], Open MPI's own numbers.
Contender library_contender(const std::string& name) {
  std::istringstream text(name.substr(4));
  Contender contender{.name = name};
  char colon = ':';
  text >> contender.library_algorithm;
  if (text && !text.eof()) text >> colon >> contender.library_segment;
  const bool whole =
      !text.fail() && (text.eof() || text.peek() == std::istringstream::traits_type::eof());
  if (!whole || colon != ':' || contender.library_algorithm < 1 ||
      contender.library_algorithm > 6 || contender.library_segment < 0) {
    throw OptionError("--algorithm has '" + name +
                      "'; expected mpi:ALGORITHM[:SEGMENT] with an algorithm of 1 to 6 and bytes");
  }
  return contender;
}

std::vector<Contender> parse_algorithms(const std::string& list) {
  std::vector<Contender> contenders;
  std::istringstream text(list == "all" ? "naive,ring,ring-segmented,tree,mpi,nccl" : list);
  for (std::string name; std::getline(text, name, ',');) {
    if (name.starts_with("mpi:")) {
      contenders.push_back(library_contender(name));
    } else {
      contenders.push_back(
          {.name = name, .kind = parse_choice<AllReduceKind>("--algorithm", name)});
    }
  }
  if (contenders.empty()) throw OptionError("--algorithm is empty");
  return contenders;
}

void check(const AllReduceOptions& options) {
  if (options.begin_bytes > options.end_bytes) {
    throw OptionError("-b is " + std::to_string(options.begin_bytes) + ", more than -e, " +
                      std::to_string(options.end_bytes));
  }
  if (!(options.factor > 1)) throw OptionError("-f must be more than 1");
}

}  // namespace

AllReduceOptions parse_allreduce_options(int argc, const char* const* argv, std::string& help) {
  AllReduceOptions options;
  options.contenders = parse_algorithms("all");
  options.all = true;
  const auto read_count = [](const std::string& name, int least, int& count) {
    return [=, &count](const std::string& text) {
      count = static_cast<int>(parse_integer(name, text, least, std::numeric_limits<int>::max()));
    };
  };
  OptionTable table("Times the all-reduces of the course and checks every element of every sum.",
                    "allreduce_perf");
  table.add(Shown::in_help, "-b,--minbytes", "BYTES", "1K", "smallest size, with K, M or G",
            [&](const std::string& text) { options.begin_bytes = parse_size("-b", text); });
  table.add(Shown::in_help, "-e,--maxbytes", "BYTES", "32M", "largest size",
            [&](const std::string& text) { options.end_bytes = parse_size("-e", text); });
  table.add(Shown::in_help, "-f,--stepfactor", "X", options.factor, "from one size to the next",
            [&](const std::string& text) {
              options.factor = parse_number("-f", text, NumberRange::positive);
            });
  table.add(Shown::in_help, "-n,--iters", "N", options.rounds, "rounds; the median is shown",
            read_count("-n", 1, options.rounds));
  table.add(Shown::in_help, "-w,--warmup_iters", "N", options.warmup,
            "calls before that, which do not count", read_count("-w", 0, options.warmup));
  table.add(Shown::in_help, "--algorithm", "NAMES", "all",
            "naive, ring, ring-segmented, tree, mpi, several with commas, or all; "
            "mpi:N[:SEGMENT] is Open MPI's algorithm N (1 to 6)",
            [&](const std::string& text) {
              options.contenders = parse_algorithms(text);
              options.all = text == "all";
            });
  table.add(Shown::in_help, "--precision", "fp32|fp64", "fp32", "of the elements",
            [&](const std::string& text) {
              options.precision = parse_choice<Precision>("--precision", text);
            });
  table.add(Shown::in_help, "--mpi-buffers", "auto|host|device", "auto", "what MPI is given",
            [&](const std::string& text) {
              options.mpi_buffers = parse_choice<MpiBuffers>("--mpi-buffers", text);
            });
  table.add(Shown::in_help, "--json", "FILE", "none", "also write the table to this file",
            [&](const std::string& text) { options.json = text; });
  const std::string version = "allreduce_perf " + std::string(project_version());
  if (const std::optional<std::string> answer = table.parse(argc, argv, version)) {
    help = *answer;
    return options;
  }
  check(options);
  return options;
}

}  // namespace ddp::bench
