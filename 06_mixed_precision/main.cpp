#include "06_mixed_precision/train.hpp"
#include "common/mpi/program.hpp"

int main(int argc, char** argv) {
  return ddp::mpi::run_program(argc, argv, "06_mixed_precision", ddp::mixed_precision::train);
}
