#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "common/cli/options.hpp"

namespace ddp::bench {

/// One contender: an algorithm of the course, or one of Open MPI's own for MPI_Allreduce.
struct Contender {
  std::string name;                         ///< ring, mpi, mpi:5:1048576, ...
  AllReduceKind kind = AllReduceKind::mpi;  ///< which of the course's classes
  int library_algorithm = 0;                ///< Open MPI's coll_tuned_allreduce_algorithm; 0: free
  int library_segment = 0;                  ///< and its segment size in bytes; 0: none
};

/// The options of nccl-tests' programs that make sense here, and a few of our own.
struct AllReduceOptions {
  std::size_t begin_bytes = std::size_t{1} << 10;
  std::size_t end_bytes = std::size_t{32} << 20;
  double factor = 2;
  int rounds = 20;
  int warmup = 3;
  std::vector<Contender> contenders;
  bool all = false;  ///< all that work with so many ranks were asked for
  Precision precision = Precision::fp32;
  MpiBuffers mpi_buffers = MpiBuffers::automatic;
  std::string json;
};

/// Reads the command line; throws OptionError. Sets `help` to the text of --help where that is
/// asked for.
AllReduceOptions parse_allreduce_options(int argc, const char* const* argv, std::string& help);

}  // namespace ddp::bench
