// A job of ranks that ends in whichever way its --seed says, or as DDP_FAULT says: what a shell
// sees. In each step the ranks pass a message round the ring.

#include <array>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "common/cuda/buffer.hpp"
#include "common/errors.hpp"
#include "common/mpi/program.hpp"
#include "common/run/fault.hpp"
#include "common/run/signals.hpp"

namespace {

using ddp::mpi::Communicator;

constexpr std::size_t large = 262'144;  // floats: MPI does not send 1 MiB before it is received

// Waits for its own copy, which on a GPU is a collective that never ends: whoever unwinds through
// it, hangs.
struct HangsWhenDestroyed {
  ~HangsWhenDestroyed() { std::this_thread::sleep_for(std::chrono::minutes(5)); }
};

void step(const Communicator& ranks) {
  const int right = (ranks.rank() + 1) % ranks.size();
  const int left = (ranks.rank() + ranks.size() - 1) % ranks.size();
  const std::vector<float> sent(large);
  std::vector<float> received(large);
  ddp::mpi::Request sending = ranks.start_send<float>(sent, right);
  ranks.receive<float>(received, left);
  sending.wait();
}

void fail(const ddp::Options& options, const Communicator& ranks) {
  const bool last = ranks.rank() == ranks.size() - 1;
  switch (options.seed) {
    case 2:
      throw ddp::AgreedError(ddp::ExitCode::bad_input, "all ranks know of a bad file");
    case 3:
      throw ddp::InputError("a bad file that every rank has found");
    case 4: {
      const HangsWhenDestroyed object;
      if (last) throw ddp::NonFiniteError("a non-finite loss");
      ranks.barrier();
      break;
    }
    case 5:
      if (last) std::thread([] { throw std::runtime_error("thrown by another thread"); }).join();
      ranks.barrier();
      break;
    case 6: {  // send to the right before the receive: large messages wait for each other
      const std::vector<float> values(large);
      ranks.send<float>(values, (ranks.rank() + 1) % ranks.size());
      break;
    }
    case 7:
      std::this_thread::sleep_for(std::chrono::minutes(5));
      break;
    default:
      break;
  }
}

ddp::TrainingResult train(const ddp::Options& options, const Communicator& ranks) {
  const auto fault = ddp::fault_from_environment(ranks.rank(), ranks.size());
  const ddp::StopSignals stop_signals;
  const ddp::cuda::DeviceBuffer<float> buffer(16);
  ddp::TrainingResult result;
  result.device_name = "device " + std::to_string(options.device);
  for (std::int64_t number = 1; number <= options.steps.value_or(3); ++number) {
    ranks.set_step(number);
    step(ranks);
    ddp::trigger(fault, number);
    if (number == 2) fail(options, ranks);
    const auto stops = ranks.all_gather(stop_signals.received() ? "stop" : "");
    for (const std::string& text : stops) result.interrupted = result.interrupted || !text.empty();
    if (options.seed == 8 && ranks.rank() == 0 && number == 2) {
      std::puts("under way");
      std::fflush(stdout);
    }
    if (options.seed == 8) std::this_thread::sleep_for(std::chrono::milliseconds(50));
    if (result.interrupted) break;
  }
  const auto devices = ranks.all_gather(result.device_name);
  for (const std::string& device : devices) result.device_name += "; " + device;
  return result;
}

}  // namespace

int main(int argc, char** argv) { return ddp::mpi::run_program(argc, argv, "fake_ranks", train); }
