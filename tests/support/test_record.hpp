#pragma once

#include <string>

namespace ddp {

/// What a grader wants to see of a program of tests: a file that is written once all tests have
/// ended. A status of 0 proves nothing, since code under test can call exit(0).
///
/// DDP_TEST_RECORD is its path, DDP_TEST_NONCE a word that only the grader knows. Both leave the
/// environment here, before any test runs. Without them nothing is written.
class TestRecord {
 public:
  TestRecord();

  /// The word, "status S", and `cases`: a line for each test that ended (CatchSession::cases).
  void write(int status, const std::string& cases) const;

 private:
  std::string path_;
  std::string nonce_;
};

}  // namespace ddp
