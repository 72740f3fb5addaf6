#include "common/mpi/program.hpp"

#include <exception>
#include <iostream>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

#include "common/cli/parse_options.hpp"
#include "common/errors.hpp"
#include "common/mpi/environment.hpp"
#include "common/mpi/failure.hpp"
#include "common/mpi/launcher.hpp"
#include "common/mpi/link.hpp"
#include "common/mpi/watchdog.hpp"
#include "common/run/program.hpp"

namespace ddp::mpi {
namespace {

bool speaks() { return launcher_rank().value_or(0) == 0; }

// What all ranks are told alike: the command line and the environment. Empty where that was a
// question (--help), which is answered.
std::optional<Options> read_options(int argc, char** argv, std::string_view stage) {
  std::ostringstream unheard;
  const std::optional<Options> options =
      parse_options(argc, argv, stage, speaks() ? std::cout : unheard);
  if (options) link_from_environment();  // throws where it is malformed
  return options;
}

void warn_of_few_cores(const Environment& environment) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  if (environment.rank() != 0 || !environment.simulated()) return;
  if (cores == 0 || environment.local_size() <= cores) return;
  write_to_stderr("warning: " + std::to_string(environment.local_size()) + " ranks on " +
                  std::to_string(cores) + " cores: time means nothing\n");
}

}  // namespace

int run_program(int argc, char** argv, std::string_view stage,
                TrainingResult (*train)(const Options&, const Communicator&)) {
  std::optional<Options> options;
  try {
    options = read_options(argc, argv, stage);
  } catch (const OptionError& error) {  // before MPI starts, nobody waits for anybody
    const int code = static_cast<int>(error.code());
    if (!speaks()) wait_to_be_ended(code);
    write_to_stderr("error: " + std::string(error.what()) + "\n");
    return code;
  }
  if (!options) return static_cast<int>(ExitCode::success);

  reserve_termination_signal();
  end_job_on_uncaught_exception();
  const Environment environment(options->share_device ? DeviceUse::shared : DeviceUse::own,
                                options->device);
  if (!options->quiet) warn_of_few_cores(environment);
  options->device = environment.device();
  TrainingResult result;
  {
    const Communicator ranks;
    const Watchdog watchdog(environment.board(), std::chrono::duration<double>(options->timeout));
    result = train(*options, ranks);
    ranks.barrier();
  }
  if (environment.rank() == 0) print_result(result);
  return static_cast<int>(result.interrupted ? ExitCode::interrupted : ExitCode::success);
}

}  // namespace ddp::mpi
