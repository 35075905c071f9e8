#include "common/live_line.h"

#include <sys/ioctl.h>

#include <algorithm>

#include "core/strings.h"
#include "solvers/caffe_log.h"

namespace crema::tools {
namespace {

std::string Duration(double seconds) {
  const auto whole = static_cast<int64_t>(std::clamp(seconds, 0.0, 1e8));
  char text[32];
  if (whole >= 3600) {
    std::snprintf(text, sizeof(text), "%ldh%02ldm", whole / 3600, whole / 60 % 60);
  } else {
    std::snprintf(text, sizeof(text), "%ldm%02lds", whole / 60, whole % 60);
  }
  return text;
}

}  // namespace

int LiveLine::Width() const {
  winsize size{};
  if (ioctl(fileno(terminal_), TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void LiveLine::Clear() {
  if (visible_) std::fprintf(terminal_, "\r\033[K");
  visible_ = false;
}

void LiveLine::Line(const std::string& text) {
  Clear();
  std::fprintf(terminal_, "%s\n", text.c_str());
  std::fflush(terminal_);
}

void LiveLine::OnStart(const std::string& net, int64_t iteration) {
  first_iteration_ = iteration;
  start_ = std::chrono::steady_clock::now();
  Line("training " + net);
}

void LiveLine::OnIteration(const IterationReport& r) {
  const auto now = std::chrono::steady_clock::now();
  const bool last = r.iteration + 1 >= r.max_iterations;
  if (!last && now - drawn_ < std::chrono::milliseconds(100)) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(r.iteration - first_iteration_);
  const double speed = done > 0 && seconds > 0 ? done / seconds : 0;
  const auto left = static_cast<double>(r.max_iterations - r.iteration);
  const auto total = static_cast<double>(std::max<int64_t>(1, r.max_iterations));
  char text[256];
  std::snprintf(text, sizeof(text),
                "iter %ld/%ld %3.0f%%  loss %.4g  lr %.3g  %.1f it/s  %.0f images/s  ETA %s",
                r.iteration, r.max_iterations, 100 * static_cast<double>(r.iteration) / total,
                r.smoothed_loss, r.rate, speed, speed * static_cast<double>(r.samples),
                speed > 0 ? Duration(left / speed).c_str() : "?");
  const std::string shown = std::string(text).substr(0, static_cast<size_t>(Width() - 1));
  std::fprintf(terminal_, "\r%s\033[K", shown.c_str());
  std::fflush(terminal_);
  visible_ = true;
}

void LiveLine::OnTest(const TestReport& report) {
  std::string text = StrCat("test #", report.net, " at iteration ", report.iteration, ":");
  if (report.has_loss) text += StrCat(" loss ", report.loss, ";");
  constexpr size_t kMost = 8;
  for (size_t k = 0; k < std::min(kMost, report.outputs.size()); ++k) {
    text += StrCat(k == 0 ? " " : ", ", DescribeOutput(report.outputs[k]));
  }
  Line(text);
}

void LiveLine::OnSnapshot(const std::string& model, const std::string&) {
  Line("snapshot " + model);
}

void LiveLine::OnEnd(bool stopped_early) { Line(stopped_early ? "stopped" : "done"); }

}  // namespace crema::tools
