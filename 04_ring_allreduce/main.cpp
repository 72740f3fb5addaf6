#include "04_ring_allreduce/train.hpp"
#include "common/mpi/program.hpp"

int main(int argc, char** argv) {
  return ddp::mpi::run_program(argc, argv, "04_ring_allreduce", ddp::ring_allreduce::train);
}
