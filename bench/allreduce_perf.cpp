// Times the all-reduces of the course beside MPI_Allreduce, with the options and the table of
// nccl-tests. All contenders take turns in one process, so that a slow moment of the machine hits
// all of them, and medians are compared.
//
//     mpirun --bind-to none -n 2 build/sim/bin/allreduce_perf -b 64K -e 16M --algorithm all
//
// A round is a burst of calls, one after another, about a millisecond long; its time is that of the
// slowest rank, divided by the calls. Every element of a sum is compared with the exact one.

#include <fmt/format.h>
#include <mpi.h>

#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "03_naive_allreduce/mpi_buffers.hpp"
#include "04_ring_allreduce/make_all_reduce.hpp"
#include "05_nccl_ddp/nccl_allreduce.hpp"
#include "bench/allreduce_options.hpp"
#include "bench/library_algorithm.hpp"
#include "common/cli/option_names.hpp"
#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/errors.hpp"
#include "common/mpi/check.hpp"
#include "common/mpi/communicator.hpp"
#include "common/mpi/environment.hpp"
#include "common/mpi/link.hpp"
#include "common/run/device.hpp"

namespace ddp::bench {
namespace {

using Json = nlohmann::ordered_json;

/// What was measured for one contender and size, in one of two places (in place, out of place).
struct Measured {
  std::vector<double> seconds;  ///< a call, by round
  double modelled_seconds = 0;  ///< a call, were there nothing but SIMGPU_LINK's link; else 0
  std::uint64_t wrong = 0;      ///< elements, of all ranks

  double median() const {
    std::vector<double> sorted = seconds;
    std::sort(sorted.begin(), sorted.end());
    const std::size_t half = sorted.size() / 2;
    return sorted.size() % 2 == 1 ? sorted[half] : (sorted[half - 1] + sorted[half]) / 2;
  }
};

double largest_of_all(double value, const mpi::Communicator& ranks) {
  mpi::check(MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_DOUBLE, MPI_MAX, ranks.handle()));
  return value;
}

/// Element i of a rank: depends on both, and all sums of up to 1000 ranks are exact in fp32.
template <class T>
T term(std::size_t rank, std::size_t i) {
  return static_cast<T>(rank * 13 + i % 8191);
}
template <class T>
T exact_sum(std::size_t ranks, std::size_t i) {
  return static_cast<T>(13 * (ranks * (ranks - 1) / 2) + ranks * (i % 8191));
}

/// The buffers of one size, and the contenders that take turns on them.
template <class T>
class Bench {
 public:
  Bench(const AllReduceOptions& options, const mpi::Communicator& ranks, bool device_pointers)
      : options_(options), ranks_(ranks), device_pointers_(device_pointers) {
    for (const Contender& contender : options.contenders) {
      if (contender.library_algorithm > 0) {
        choose_library_algorithm(contender.library_algorithm, contender.library_segment);
        changed_ = true;
      } else if (changed_) {
        choose_library_algorithm(0, 0);
      }
      communicators_.push_back(std::make_unique<mpi::Communicator>());
      all_reduces_.push_back(make(contender.kind, *communicators_.back()));
    }
  }

  /// [contender][0: out of place, 1: in place]
  std::vector<std::array<Measured, 2>> measure(std::size_t count) {
    input_ = cuda::DeviceBuffer<T>(count);
    output_ = cuda::DeviceBuffer<T>(count);
    values_.resize(count);
    std::vector<std::array<Measured, 2>> measured(all_reduces_.size());
    std::vector<std::array<int, 2>> calls(all_reduces_.size());
    for (std::size_t c = 0; c < all_reduces_.size(); ++c) {
      for (const bool in_place : {false, true}) {
        measured[c][in_place].wrong = wrong(c, in_place, count);
        measured[c][in_place].modelled_seconds = modelled_seconds(c, count);
        for (int i = 1; i < options_.warmup; ++i) burst(c, in_place, count, 1);
        constexpr double burst_seconds = 1e-3;
        const double one = burst(c, in_place, count, 1);
        calls[c][in_place] = static_cast<int>(std::clamp(burst_seconds / one, 1.0, 100.0));
      }
    }
    for (int round = 0; round < options_.rounds; ++round) {
      for (std::size_t c = 0; c < all_reduces_.size(); ++c) {
        for (const bool in_place : {false, true}) {
          measured[c][in_place].seconds.push_back(burst(c, in_place, count, calls[c][in_place]));
        }
      }
    }
    return measured;
  }

 private:
  std::unique_ptr<AllReduce<T>> make(AllReduceKind kind, const mpi::Communicator& communicator) {
    if (kind != AllReduceKind::nccl)
      return make_all_reduce<T>(kind, communicator, device_pointers_);
    if (!nccl_) nccl_.emplace(ranks_, std::chrono::seconds(60));
    return std::make_unique<NcclAllReduce<T>>(*nccl_);
  }

  void call(std::size_t contender, bool in_place, std::size_t count) {
    const std::span<T> output(output_.data(), count);
    const std::span<const T> input = in_place ? output : std::span<const T>(input_.data(), count);
    all_reduces_[contender]->sum(input, output, stream_);
  }

  /// Of one call, in place, in which all ranks begin at once: on a link that was never used.
  double modelled_seconds(std::size_t contender, std::size_t count) {
    const AllReduceKind kind = options_.contenders[contender].kind;
    if (!mpi::link_from_environment() || kind == AllReduceKind::nccl) return 0;
    const mpi::Communicator unused;
    const auto all_reduce = make(kind, unused);
    all_reduce->sum({output_.data(), count}, stream_);
    return largest_of_all(unused.modelled_seconds(), ranks_);
  }

  double burst(std::size_t contender, bool in_place, std::size_t count, int calls) {
    // In place, sums of sums would grow without end.
    if (in_place) cuda::clear_async(output_.data(), count, stream_);
    stream_.synchronize();
    ranks_.barrier();
    const auto start = std::chrono::steady_clock::now();
    for (int i = 0; i < calls; ++i) call(contender, in_place, count);
    stream_.synchronize();
    const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
    return largest_of_all(taken.count() / calls, ranks_);
  }

  std::uint64_t wrong(std::size_t contender, bool in_place, std::size_t count) {
    const auto rank = static_cast<std::size_t>(ranks_.rank());
    const auto size = static_cast<std::size_t>(ranks_.size());
    for (std::size_t i = 0; i < count; ++i) values_[i] = term<T>(rank, i);
    cuda::upload<T>(input_.data(), values_, stream_);
    cuda::upload<T>(output_.data(), in_place ? values_ : std::vector<T>(count, T(-1)), stream_);
    call(contender, in_place, count);
    std::uint64_t differing = 0;
    values_ = cuda::download(output_.data(), count, stream_);
    for (std::size_t i = 0; i < count; ++i) {
      if (values_[i] != exact_sum<T>(size, i)) ++differing;
    }
    mpi::check(MPI_Allreduce(MPI_IN_PLACE, &differing, 1, MPI_UINT64_T, MPI_SUM, ranks_.handle()));
    return differing;
  }

  const AllReduceOptions& options_;
  const mpi::Communicator& ranks_;
  std::optional<nccl::Communicator> nccl_;
  const bool device_pointers_;
  bool changed_ = false;
  cuda::Stream stream_;
  cuda::DeviceBuffer<T> input_, output_;
  std::vector<T> values_;
  std::vector<std::unique_ptr<mpi::Communicator>> communicators_;
  std::vector<std::unique_ptr<AllReduce<T>>> all_reduces_;
};

void print_head(const AllReduceOptions& options, const Device& device, int ranks, bool on_device) {
  fmt::print("# {} ranks, {}, {} buffers, median of {} rounds\n", ranks, device.name,
             on_device ? "device" : "host", options.rounds);
  if (device.simulated) fmt::print("# simulated: no time of a GPU\n");
  fmt::print("#{:>63}{:>38}\n", "out-of-place", "in-place");
  fmt::print("#{:>11} {:>11} {:>6} {:>6} {:>14}", "size", "count", "type", "redop", "algorithm");
  for (int place = 0; place < 2; ++place) {
    fmt::print(" {:>9} {:>7} {:>7} {:>7}", "time", "algbw", "busbw", "#wrong");
  }
  fmt::print("\n#{:>11} {:>11} {:>6} {:>6} {:>14}", "(B)", "(elements)", "", "", "");
  for (int place = 0; place < 2; ++place) {
    fmt::print(" {:>9} {:>7} {:>7} {:>7}", "(us)", "(GB/s)", "(GB/s)", "");
  }
  fmt::print("\n");
}

/// Prints a row and returns it for the JSON file.
Json report(const AllReduceOptions& options, const Contender& contender,
            const std::array<Measured, 2>& measured, std::size_t count, std::size_t size,
            int ranks) {
  const std::string_view type = options.precision == Precision::fp32 ? "float" : "double";
  const std::size_t bytes = count * size;
  Json row = {{"bytes", bytes}, {"count", count}, {"type", type}, {"algorithm", contender.name}};
  fmt::print("{:>12} {:>11} {:>6} {:>6} {:>14}", bytes, count, type, "sum", contender.name);
  for (const bool in_place : {false, true}) {
    const Measured& place = measured[in_place];
    const double seconds = place.median();
    const double algorithm_gbs = static_cast<double>(bytes) / seconds * 1e-9;
    const double bus_gbs = algorithm_gbs * 2 * (ranks - 1) / ranks;
    fmt::print(" {:>9.2f} {:>7.2f} {:>7.2f} {:>7}", seconds * 1e6, algorithm_gbs, bus_gbs,
               place.wrong);
    row[in_place ? "in_place" : "out_of_place"] = {{"seconds", seconds},
                                                   {"algbw", algorithm_gbs},
                                                   {"busbw", bus_gbs},
                                                   {"wrong", place.wrong},
                                                   {"modelled_seconds", place.modelled_seconds},
                                                   {"rounds", place.seconds}};
  }
  fmt::print("\n");
  std::fflush(stdout);
  return row;
}

template <class T>
std::uint64_t run(const AllReduceOptions& options, const mpi::Communicator& ranks,
                  const Device& device, bool device_pointers) {
  const bool speaks = ranks.rank() == 0;
  if (speaks) print_head(options, device, ranks.size(), device_pointers);
  Bench<T> bench(options, ranks, device_pointers);
  Json rows = Json::array();
  std::uint64_t wrong = 0;
  std::size_t bytes = options.begin_bytes;
  while (bytes <= options.end_bytes) {
    const std::size_t count = bytes / sizeof(T);
    if (count > 0) {
      const auto measured = bench.measure(count);
      for (std::size_t c = 0; c < measured.size(); ++c) {
        wrong += measured[c][0].wrong + measured[c][1].wrong;
        if (speaks) {
          rows.push_back(
              report(options, options.contenders[c], measured[c], count, sizeof(T), ranks.size()));
        }
      }
    }
    bytes =
        std::max(bytes + 1, static_cast<std::size_t>(static_cast<double>(bytes) * options.factor));
  }
  if (speaks) fmt::print("# wrong elements: {}\n", wrong);
  if (speaks && !options.json.empty()) {
    std::ofstream file(options.json);
    file << Json{{"ranks", ranks.size()},
                 {"device", device.name},
                 {"simulated", device.simulated},
                 {"buffers", device_pointers ? "device" : "host"},
                 {"rows", rows}}
                .dump(1)
         << '\n';
    if (!file.flush()) throw InputError(options.json + ": cannot be written");
  }
  return wrong;
}

int run_main(AllReduceOptions options, const mpi::Environment& environment) {
  const mpi::Communicator ranks;
  if (options.all && !std::has_single_bit(static_cast<unsigned>(ranks.size()))) {
    std::erase_if(options.contenders,
                  [](const Contender& one) { return one.kind == AllReduceKind::tree; });
  }
  const Device device = select_device(environment.device());
  const bool device_pointers = pass_device_pointers(options.mpi_buffers, device.simulated);
  const std::uint64_t wrong = options.precision == Precision::fp32
                                  ? run<float>(options, ranks, device, device_pointers)
                                  : run<double>(options, ranks, device, device_pointers);
  return wrong == 0 ? 0 : 1;
}

}  // namespace
}  // namespace ddp::bench

int main(int argc, char** argv) {
  // Open MPI reads this at its start, and only then lets us choose its algorithms by number.
  setenv("OMPI_MCA_coll_tuned_use_dynamic_rules", "1", 0);
  try {
    std::string help;
    const auto options = ddp::bench::parse_allreduce_options(argc, argv, help);
    if (!help.empty()) {
      std::cout << help;
      return 0;
    }
    const ddp::mpi::Environment environment(ddp::mpi::DeviceUse::own);
    try {
      return ddp::bench::run_main(options, environment);
    } catch (const std::exception& error) {
      // Other ranks may be waiting for this one: nobody goes on.
      std::cerr << "error: " + std::string(error.what()) + "\n";
      const auto* const known = dynamic_cast<const ddp::Error*>(&error);
      MPI_Abort(MPI_COMM_WORLD, known == nullptr ? 1 : static_cast<int>(known->code()));
    }
  } catch (const ddp::Error& error) {
    std::cerr << "error: " + std::string(error.what()) + "\n";
    return static_cast<int>(error.code());
  }
  return 1;
}
