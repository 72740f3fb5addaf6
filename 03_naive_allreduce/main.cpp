#include <cstdio>
#include <iostream>
#include "03_naive_allreduce/train.hpp"
#include "common/cli/parse_options.hpp"
#include "common/io/checksum.hpp"

int main(int argc, char** argv) {
  MPI_Init(nullptr, nullptr);
  {
    const ddp::mpi::Communicator ranks;
    const auto options = ddp::parse_options(argc, argv, "03_naive_allreduce", std::cout);
    const auto r = ddp::naive_allreduce::train(*options, ranks);
    if (ranks.rank() == 0) {
      std::printf("%.9g %s acc %g loss %g\n", r.steps.back().loss,
                  ddp::checksum_text(r.parameter_checksum).c_str(), r.test.accuracy, r.test.loss);
      for (auto& t : r.traffic) std::printf("%ld %ld\n", t.messages_sent, t.bytes_sent);
    }
  }
  MPI_Finalize();
}
