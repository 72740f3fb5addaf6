#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>

#include "common/io/training_result.hpp"

namespace ddp {

enum class ProgressStyle {
  none,
  lines,  ///< a plain line about 10 times an epoch: for logs
  bar,    ///< one line, redrawn at most 10 times a second: for a terminal
};

struct ProgressLook {
  ProgressStyle style = ProgressStyle::none;
  bool colour = false;
  std::size_t columns = 80;  ///< of the terminal; a bar that is wider would not stay on its line
};

/// What suits stderr: nothing with `quiet`, a bar on a terminal that can move its cursor, else
/// lines. Colour only on a terminal, and not where NO_COLOR (https://no-color.org) is set.
ProgressLook progress_look_of_stderr(bool quiet);

/// Tells a person how the training goes: loss, learning rate, samples per second, time left.
class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  Progress(std::ostream& out, const ProgressLook& look, std::int64_t total_steps,
           std::int64_t steps_per_epoch);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  /// Ends the bar's line, so that what is printed next, an error perhaps, begins a new one.
  ~Progress();

  /// `now` is an argument so that a test need not wait.
  void step(const StepRecord& record, Clock::time_point now = Clock::now());

 private:
  void draw_bar(const StepRecord& record, Clock::time_point now);
  std::string describe(const StepRecord& record, Clock::time_point now) const;

  std::ostream& out_;
  ProgressLook look_;
  std::int64_t total_steps_;
  std::int64_t line_interval_;
  Clock::time_point start_;  // of the first step that was reported
  Clock::time_point last_drawn_;
  std::int64_t first_step_ = 0;
  std::int64_t samples_ = 0;     // after the first step
  std::size_t drawn_width_ = 0;  // of the bar on screen, 0 for none
};

}  // namespace ddp
