#include "tests/support/catch_session.hpp"

#if __has_include(<catch2/catch_all.hpp>)
#include <catch2/catch_all.hpp>
#else
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>
#endif

namespace ddp {
namespace {

#if CATCH_VERSION_MAJOR >= 3
using ListenerBase = Catch::EventListenerBase;
#else
using ListenerBase = Catch::TestEventListenerBase;
#endif

// Catch2 makes its listeners itself.
struct CaseListener : ListenerBase {
  using ListenerBase::ListenerBase;
  void testCaseStarting(const Catch::TestCaseInfo& test) override {
    ListenerBase::testCaseStarting(test);
    name = test.name;
  }
  void testCaseEnded(const Catch::TestCaseStats& stats) override {
    const Catch::Counts& assertions = stats.totals.assertions;
    lines += "case " + std::to_string(assertions.total()) + ' ' +
             std::to_string(assertions.failed) + ' ' + name + '\n';
    ListenerBase::testCaseEnded(stats);
  }
  static inline std::string lines;
  std::string name;
};
CATCH_REGISTER_LISTENER(CaseListener)

}  // namespace

struct CatchSession::Session {
  Catch::Session session;
};

CatchSession::CatchSession(Colours colours) : session_(std::make_unique<Session>()) {
  Catch::ConfigData& config = session_->session.configData();
#if CATCH_VERSION_MAJOR >= 3
  config.runOrder = Catch::TestRunOrder::Declared;  // random by default from 3.9 on
  if (colours == Colours::none) config.defaultColourMode = Catch::ColourMode::None;
#else
  config.runOrder = Catch::RunTests::InDeclarationOrder;
  config.warnings = Catch::WarnAbout::NoTests;  // a failure of its own from 3.0 on
  if (colours == Colours::none) config.useColour = Catch::UseColour::No;
#endif
}

CatchSession::~CatchSession() = default;

void CatchSession::stop_at_first_failure() { session_->session.configData().abortAfter = 1; }

int CatchSession::read_command_line(int argc, char** argv) {
  return session_->session.applyCommandLine(argc, argv);
}

bool CatchSession::only_tells() const {
  const Catch::ConfigData& config = session_->session.configData();
  return config.showHelp || config.listTests || config.listTags || config.listReporters;
}

int CatchSession::run() { return session_->session.run(); }

const std::string& CatchSession::cases() { return CaseListener::lines; }

}  // namespace ddp
