// The main function of test programs whose tests several ranks run together, all the same ones in
// the order of the source. After each test the ranks agree on how it went before anyone goes on;
// only ranks with a failure print, each line with the number of the rank.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include <catch2/catch.hpp>
#endif

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <sstream>

#include "common/mpi/check.hpp"
#include "common/mpi/failure.hpp"
#include "common/mpi/launcher.hpp"
#include "tests/support/catch_session.hpp"
#include "tests/support/mpi_world.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/test_agreement.hpp"
#include "tests/support/test_clock.hpp"
#include "tests/support/test_record.hpp"

#if CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

namespace ddp {
namespace {

constexpr int skipped = 77;  // what ctest counts as skipped

std::chrono::seconds time_limit() {
  const char* const text = std::getenv("DDP_TEST_TIME_LIMIT");  // seconds
  return std::chrono::seconds(text == nullptr ? 20 : std::max(1, std::atoi(text)));
}

// What Catch2 prints, kept until it is known whether anybody has to see it.
class CapturedOutput {
 public:
  CapturedOutput() : original_(std::cout.rdbuf(text_.rdbuf())) {}
  CapturedOutput(const CapturedOutput&) = delete;
  CapturedOutput& operator=(const CapturedOutput&) = delete;
  ~CapturedOutput() { std::cout.rdbuf(original_); }

  std::string take() {
    std::string text = text_.str();
    text_.str("");
    return text;
  }

 private:
  std::ostringstream text_;
  std::streambuf* original_;
};

// Past std::cout, which is captured.
void print(const std::string& text) {
  std::size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) return;
    done += static_cast<std::size_t>(count);
  }
}

std::string ranks_with(const std::vector<int>& values) {
  std::string text;
  for (std::size_t rank = 0; rank < values.size(); ++rank) {
    if (values[rank] != 0) text += (text.empty() ? "" : ", ") + std::to_string(rank);
  }
  return text;
}

// All that a test needs of the program around it.
struct Program {
  Program()
      : environment(needs_device() ? mpi::DeviceUse::shared : mpi::DeviceUse::none),
        agreement(environment),
        clock(time_limit(), [this](const std::string& test) { report_late(test); }) {}

  void start(const std::string& test) {
    name = test;
    clock.start(test);
  }

  void end(bool failed) {
    const std::string text = output.take();
    // Another rank has ended the job: what failed here is the launcher's SIGTERM.
    if (failed && environment.board().report_claimed()) mpi::wait_to_be_ended(1);
    if (failed) print(with_rank(environment.rank(), text));
    const std::vector<int> failures = agreement.gather(failed ? 1 : 0, failed, give_up);
    clock.stop();
    const bool unread = report_unread();
    const std::vector<int> messages = agreement.gather(unread ? 1 : 0, false, give_up);
    ++tests;
    if (ranks_with(failures).empty() && ranks_with(messages).empty()) return;
    ++failed_tests;
    if (environment.rank() == 0) {
      if (const std::string ranks = ranks_with(failures); !ranks.empty()) {
        print("FAILED on rank " + ranks + ": " + name + "\n");
      }
      if (const std::string ranks = ranks_with(messages); !ranks.empty()) {
        print("FAILED, messages unread on rank " + ranks + ": " + name + "\n");
      }
    }
    // All know of it, so all can leave.
    if (std::getenv("DDP_STOP_AT_FIRST_FAILURE") != nullptr) mpi::end_job(1);
  }

  bool report_unread() {
    std::vector<std::string> lines = drain_unread(world.handle());
    const std::vector<std::string> others = drain_unread(MPI_COMM_WORLD);
    lines.insert(lines.end(), others.begin(), others.end());
    for (const std::string& line : lines) {
      print(with_rank(environment.rank(), "test '" + name + "' left a message unread: " + line));
    }
    return !lines.empty();
  }

  // By the clock's thread.
  void report_late(const std::string& test) const {
    if (mpi::may_report()) {
      mpi::write_to_stderr("test '" + test + "' is not done after " +
                           std::to_string(time_limit().count()) + " s\n" +
                           mpi::diagnosis(environment.board().read()));
      _exit(1);
    }
    mpi::wait_to_be_ended(1);
  }

  static void give_up();

  mpi::Environment environment;
  mpi::Communicator world;
  TestAgreement agreement;
  CapturedOutput output;
  std::string name;
  int tests = 0;
  int failed_tests = 0;
  TestClock clock;  // last: its thread uses the others
};

// Catch2 makes its listeners itself, and tests ask for world() from anywhere.
Program* program = nullptr;

void Program::give_up() {
  if (mpi::may_report()) {
    mpi::write_to_stderr(with_rank(program->environment.rank(),
                                   "the others wait in test '" + program->name +
                                       "', which this rank has left; the job is ended") +
                         mpi::diagnosis(program->environment.board().read()));
    mpi::end_job(1);
  }
  mpi::wait_to_be_ended(1);
}

struct Listener : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    ListenerBase::testCaseStarting(test);
    program->start(test.name);
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    program->end(stats.totals.testCases.failed > 0);
    ListenerBase::testCaseEnded(stats);
  }
  void testRunEnded(const Catch::TestRunStats& stats) override {
    assertions = static_cast<long>(stats.totals.assertions.total());
    ListenerBase::testRunEnded(stats);
  }
  static inline long assertions = 0;
};
CATCH_REGISTER_LISTENER(Listener)

// The exit code of all ranks.
int summarize() {
  long assertions = 0;
  mpi::check(MPI_Allreduce(&Listener::assertions, &assertions, 1, MPI_LONG, MPI_SUM,
                           program->world.handle()));
  const bool ok = program->tests > 0 && program->failed_tests == 0;
  const int size = program->environment.size();
  if (program->environment.rank() == 0) {
    std::ostringstream text;
    text << (size == 1 ? "rank 0" : "ranks 0 to " + std::to_string(size - 1)) << ": ";
    if (program->tests == 0) {
      text << "no test ran";
    } else if (ok) {
      text << "all " << program->tests << " tests passed, " << assertions << " assertions";
    } else {
      text << program->failed_tests << " of " << program->tests << " tests failed";
    }
    print(text.str() + "\n");
  }
  return ok ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run_tests(CatchSession& session) {
  Program the_program;
  program = &the_program;
  const int status = session.run();
  const std::vector<int> statuses =
      the_program.agreement.gather(the_program.tests == 0 ? status : 0, false, Program::give_up);
  const int code = summarize();
  program = nullptr;
  return ranks_with(statuses).empty() ? code : EXIT_FAILURE;
}

}  // namespace

const mpi::Communicator& world() { return program->world; }
const mpi::Environment& environment() { return program->environment; }

}  // namespace ddp

int main(int argc, char** argv) {
  const ddp::TestRecord record;
  const bool speaks = ddp::mpi::launcher_rank().value_or(0) == 0;
  if (const auto reason = ddp::reason_to_skip()) {
    if (speaks) std::cout << "skipped: " << *reason << std::endl;
    return ddp::skipped;
  }
  // mpirun pretends to be a terminal, which would have colours.
  ddp::CatchSession session(ddp::CatchSession::Colours::none);
  if (const int status = session.read_command_line(argc, argv); status != 0) return status;
  if (session.only_tells()) return speaks ? session.run() : EXIT_SUCCESS;
  ddp::mpi::end_job_on_uncaught_exception();
  const int status = ddp::run_tests(session);
  if (speaks) record.write(status, ddp::CatchSession::cases());
  return status;
}
