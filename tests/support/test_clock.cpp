#include "tests/support/test_clock.hpp"

#include <utility>

namespace ddp {

TestClock::TestClock(std::chrono::seconds limit, std::function<void(const std::string&)> too_late)
    : limit_(limit), too_late_(std::move(too_late)), thread_([this] { watch(); }) {}

TestClock::~TestClock() {
  {
    const std::lock_guard lock(mutex_);
    ended_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void TestClock::start(const std::string& test) {
  {
    const std::lock_guard lock(mutex_);
    test_ = test;
    deadline_ = std::chrono::steady_clock::now() + limit_;
  }
  changed_.notify_one();
}

void TestClock::stop() {
  {
    const std::lock_guard lock(mutex_);
    test_.clear();
  }
  changed_.notify_one();
}

void TestClock::watch() {
  std::unique_lock lock(mutex_);
  while (!ended_) {
    if (test_.empty()) {
      changed_.wait(lock);
    } else if (std::chrono::steady_clock::now() < deadline_) {
      changed_.wait_until(lock, deadline_);
    } else {
      const std::string test = std::exchange(test_, {});
      lock.unlock();
      too_late_(test);
      lock.lock();
    }
  }
}

}  // namespace ddp
