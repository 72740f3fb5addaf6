#include "03_naive_allreduce/train.hpp"
#include "common/mpi/program.hpp"

int main(int argc, char** argv) {
  return ddp::mpi::run_program(argc, argv, "03_naive_allreduce", ddp::naive_allreduce::train);
}
