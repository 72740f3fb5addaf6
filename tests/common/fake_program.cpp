// Ends in whichever way its --seed says: what a shell sees of each kind of error.

#include <csignal>
#include <new>
#include <stdexcept>

#include "common/cuda/buffer.hpp"
#include "common/cuda/stream.hpp"
#include "common/errors.hpp"
#include "common/run/program.hpp"
#include "common/run/run.hpp"

namespace {

ddp::TrainingResult train(const ddp::Options& options) {
  switch (options.seed) {
    case 2:
      throw ddp::OptionError("a bad option");
    case 3:
      throw ddp::InputError("a bad file");
    case 4:
      throw ddp::NonFiniteError("a non-finite loss");
    case 6:
      throw ddp::DeviceError("a bad device");
    case 7:
      throw std::runtime_error("something else");
    case 8:
      throw std::bad_alloc();
    default:
      break;
  }
  ddp::Run<float> run("fake_program", options);
  const ddp::cuda::Stream stream;
  const ddp::cuda::DeviceBuffer<ddp::StepScalars<float>> scalars(1);
  ddp::cuda::clear_async(scalars.data(), 1, stream);
  for (const ddp::Step& step : run.steps()) {
    run.load(step, stream);
    if (options.seed == 9 && step.number == 3) std::raise(SIGINT);
    run.record(step, scalars.data(), options.learning_rate, stream);
  }
  return run.finish({}, {0.25, 0.75, 1}, stream);
}

}  // namespace

int main(int argc, char** argv) { return ddp::run_program(argc, argv, "fake_program", train); }
