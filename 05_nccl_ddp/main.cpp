#include "05_nccl_ddp/train.hpp"
#include "common/mpi/program.hpp"

int main(int argc, char** argv) {
  return ddp::mpi::run_program(argc, argv, "05_nccl_ddp", ddp::nccl_ddp::train);
}
