#pragma once

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace ddp {

/// Calls `too_late`, with the name of the test, from a thread of its own, where a test is not done
/// after `limit`.
class TestClock {
 public:
  TestClock(std::chrono::seconds limit, std::function<void(const std::string& test)> too_late);
  TestClock(const TestClock&) = delete;
  TestClock& operator=(const TestClock&) = delete;
  ~TestClock();

  void start(const std::string& test);
  void stop();

 private:
  void watch();

  const std::chrono::seconds limit_;
  const std::function<void(const std::string&)> too_late_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::string test_;  // empty between tests
  std::chrono::steady_clock::time_point deadline_;
  bool ended_ = false;
  std::thread thread_;  // last: it uses all of the others
};

}  // namespace ddp
