#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "engine.hpp"

namespace simgpu {

/// An engine on an OS thread of its own, with shared memory of its own, that is called and waited
/// for. Only TSan needs it; see run_grid(). The handover is invisible to TSan.
class SecondEngine {
 public:
  SecondEngine() : thread_([this] { work(); }) {}
  ~SecondEngine() {
    call(nullptr);
    thread_.join();
  }
  SecondEngine(const SecondEngine&) = delete;
  SecondEngine& operator=(const SecondEngine&) = delete;

  void call(std::function<void(Engine&)> function) {
    function_ = std::move(function);
    busy_ = 1;
    busy_.notify_one();
    busy_.wait(1);
  }

 private:
  void work() {
    Engine own;
    for (bool more = true; more;) {
      busy_.wait(0);
      more = function_ != nullptr;
      if (more) function_(own);
      busy_ = 0;
      busy_.notify_one();
    }
  }

  std::function<void(Engine&)> function_;
  std::atomic<int> busy_{0};
  std::thread thread_;  // last: it starts when the rest is there
};

}  // namespace simgpu
