#include "01_single_gpu/train.hpp"
#include "common/run/program.hpp"

int main(int argc, char** argv) {
  return ddp::run_program(argc, argv, "01_single_gpu", ddp::single_gpu::train);
}
