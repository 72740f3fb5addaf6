#include "common/io/progress.hpp"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>

namespace ddp {
namespace {

constexpr std::size_t bar_width = 10;
constexpr std::chrono::milliseconds redraw_interval{100};

bool has_value(const char* variable) {
  const char* const value = std::getenv(variable);
  return value != nullptr && *value != '\0';
}

std::string duration_text(double seconds) {
  const auto whole = std::llround(seconds);
  if (whole >= 3600)
    return fmt::format("{}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
  return fmt::format("{}:{:02}", whole / 60, whole % 60);
}

}  // namespace

ProgressLook progress_look_of_stderr(bool quiet) {
  ProgressLook look;
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const char* const kind = std::getenv("TERM");
  const bool dumb = kind != nullptr && std::string_view(kind) == "dumb";
  if (!quiet) look.style = terminal && !dumb ? ProgressStyle::bar : ProgressStyle::lines;
  look.colour = terminal && !has_value("NO_COLOR");
  winsize size{};
  if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) look.columns = size.ws_col;
  return look;
}

Progress::Progress(std::ostream& out, const ProgressLook& look, std::int64_t total_steps,
                   std::int64_t steps_per_epoch)
    : out_(out),
      look_(look),
      total_steps_(total_steps),
      line_interval_(std::max<std::int64_t>(1, std::min(total_steps, steps_per_epoch) / 10)) {}

Progress::~Progress() {
  if (drawn_width_ > 0) out_ << '\n' << std::flush;
}

void Progress::step(const StepRecord& record, Clock::time_point now) {
  const bool first = first_step_ == 0;
  const bool last = record.step == total_steps_;
  if (first) {
    first_step_ = record.step;
    start_ = now;
  } else {
    samples_ += record.samples;
  }
  if (look_.style == ProgressStyle::lines) {
    if (!first && !last && record.step % line_interval_ != 0) return;
    out_ << fmt::format("step {}/{}  {}\n", record.step, total_steps_, describe(record, now))
         << std::flush;
  } else if (look_.style == ProgressStyle::bar) {
    if (first || last || now - last_drawn_ >= redraw_interval) draw_bar(record, now);
  }
}

void Progress::draw_bar(const StepRecord& record, Clock::time_point now) {
  last_drawn_ = now;
  const double share = static_cast<double>(record.step) / static_cast<double>(total_steps_);
  const auto filled = static_cast<std::size_t>(share * bar_width);
  std::string line = std::string(filled, '#') + std::string(bar_width - filled, '.') +
                     fmt::format(" {:3.0f}%  {}", 100 * share, describe(record, now));
  // The last column stays free: some terminals wrap as soon as it is filled.
  line.resize(std::min(line.size(), std::max<std::size_t>(look_.columns, 2) - 1));
  const std::size_t width = line.size();
  // Spaces wipe what a longer line left behind, on any terminal.
  line.append(drawn_width_ > width ? drawn_width_ - width : 0, ' ');
  if (look_.colour) line.insert(std::min(filled, width), "\x1b[0m").insert(0, "\x1b[32m");
  out_ << '\r' << line << std::flush;
  drawn_width_ = width;
}

std::string Progress::describe(const StepRecord& record, Clock::time_point now) const {
  std::string text = fmt::format("epoch {}  loss {:.4f}  rate {:g}", record.epoch, record.loss,
                                 record.learning_rate);
  const double elapsed = std::chrono::duration<double>(now - start_).count();
  if (elapsed <= 0) return text;  // the first step
  const auto done = static_cast<double>(record.step - first_step_);
  const auto left = static_cast<double>(total_steps_ - record.step);
  return text + fmt::format("  {:.0f} samples/s  {} left", static_cast<double>(samples_) / elapsed,
                            duration_text(elapsed / done * left));
}

}  // namespace ddp
