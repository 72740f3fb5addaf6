#include "07_scaling_rules/train.hpp"
#include "common/mpi/program.hpp"

int main(int argc, char** argv) {
  return ddp::mpi::run_program(argc, argv, "07_scaling_rules", ddp::scaling_rules::train);
}
