#include "bench/allreduce_options.hpp"

#include <CLI/CLI.hpp>
#include <cmath>
#include <sstream>

#include "common/cli/parse_values.hpp"
#include "common/errors.hpp"

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
  if (options.rounds < 1) throw OptionError("-n must be at least 1");
  if (options.warmup < 0) throw OptionError("-w must be at least 0");
}

}  // namespace

AllReduceOptions parse_allreduce_options(int argc, const char* const* argv, std::string& help) {
  AllReduceOptions options;
  std::string begin = "1K", end = "32M", algorithms = "all", precision = "fp32", buffers = "auto";
  CLI::App app("Times the all-reduces of the course and checks every element of every sum.");
  app.option_defaults()->always_capture_default();
  app.add_option("-b,--minbytes", begin, "smallest size, with K, M or G");
  app.add_option("-e,--maxbytes", end, "largest size");
  app.add_option("-f,--stepfactor", options.factor, "from one size to the next");
  app.add_option("-n,--iters", options.rounds, "rounds; the median is shown");
  app.add_option("-w,--warmup_iters", options.warmup, "calls before that, which do not count");
  app.add_option("--algorithm", algorithms,
                 "naive, ring, ring-segmented, tree, mpi, several with commas, or all; "
                 "mpi:N[:SEGMENT] is Open MPI's algorithm N (1 to 6)");
  app.add_option("--precision", precision, "fp32 or fp64");
  app.add_option("--mpi-buffers", buffers, "auto, host or device: what MPI is given");
  app.add_option("--json", options.json, "also write the table to this file");
  try {
    app.parse(argc, argv);
  } catch (const CLI::CallForHelp&) {
    help = app.help();
    return options;
  } catch (const CLI::ParseError& error) {
    throw OptionError(error.what());
  }
  options.begin_bytes = parse_size("-b", begin);
  options.end_bytes = parse_size("-e", end);
  options.contenders = parse_algorithms(algorithms);
  options.all = algorithms == "all";
  options.precision = parse_choice<Precision>("--precision", precision);
  options.mpi_buffers = parse_choice<MpiBuffers>("--mpi-buffers", buffers);
  check(options);
  return options;
}

}  // namespace ddp::bench
