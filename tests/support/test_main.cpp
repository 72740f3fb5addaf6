// The main function of every test program of one process. The order of the tests is that of the
// source, and a run of no test is a failure: a typo in a filter must not look like a pass.

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

#include <cstdlib>
#include <iostream>

#include "tests/support/skip.hpp"

int main(int argc, char** argv) {
  if (const auto reason = ddp::reason_to_skip()) {
    std::cout << "skipped: " << *reason << '\n';
    return 77;  // what ctest counts as skipped
  }
  Catch::Session session;
#if CATCH_VERSION_MAJOR >= 3
  session.configData().runOrder = Catch::TestRunOrder::Declared;  // random by default from 3.9 on
#else
  session.configData().runOrder = Catch::RunTests::InDeclarationOrder;
  session.configData().warnings = Catch::WarnAbout::NoTests;  // a failure of its own from 3.0 on
#endif
  // A test that has found memory overwritten had better not go on in it.
  if (std::getenv("DDP_STOP_AT_FIRST_FAILURE") != nullptr) session.configData().abortAfter = 1;
  return session.run(argc, argv);
}
