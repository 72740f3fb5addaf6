#include "02_grad_accum/train.hpp"
#include "common/run/program.hpp"

int main(int argc, char** argv) {
  return ddp::run_program(argc, argv, "02_grad_accum", ddp::grad_accum::train);
}
