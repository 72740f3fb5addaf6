#pragma once

#include <memory>
#include <string>

namespace ddp {

/// Catch2's runner: the tests in the order of the source; a run of no test is a failure, since a
/// typo in a filter must not look like a pass. Only catch_session.cpp sees it, because it takes the
/// compiler longer than any test.
class CatchSession {
 public:
  enum class Colours { automatic, none };
  explicit CatchSession(Colours colours);
  CatchSession(const CatchSession&) = delete;
  CatchSession& operator=(const CatchSession&) = delete;
  ~CatchSession();

  void stop_at_first_failure();
  /// A status other than 0 is that of the program.
  int read_command_line(int argc, char** argv);
  /// Whether the command line asks for help or a list instead of a run.
  bool only_tells() const;
  /// The status of the program.
  int run();
  /// A line for each test that has ended: "case ASSERTIONS FAILED NAME".
  static const std::string& cases();

 private:
  struct Session;
  std::unique_ptr<Session> session_;
};

}  // namespace ddp
