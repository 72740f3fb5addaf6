// The main function of every test program of one process.

#include <cstdlib>
#include <iostream>

#include "tests/support/catch_session.hpp"
#include "tests/support/skip.hpp"
#include "tests/support/test_record.hpp"

int main(int argc, char** argv) {
  const ddp::TestRecord record;
  if (const auto reason = ddp::reason_to_skip()) {
    std::cout << "skipped: " << *reason << '\n';
    return 77;  // what ctest counts as skipped
  }
  ddp::CatchSession session(ddp::CatchSession::Colours::automatic);
  // A test that has found memory overwritten had better not go on in it.
  if (std::getenv("DDP_STOP_AT_FIRST_FAILURE") != nullptr) session.stop_at_first_failure();
  if (const int status = session.read_command_line(argc, argv); status != 0) return status;
  const int status = session.run();
  record.write(status, ddp::CatchSession::cases());
  return status;
}
