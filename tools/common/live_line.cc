#include "common/live_line.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <vector>

#include "common/metric_name.h"
#include "core/strings.h"
#include "solvers/caffe_log.h"

namespace crema::tools {
namespace {

std::string Format(const char* format, double value) {
  char text[64];
  std::snprintf(text, sizeof(text), format, value);
  return text;
}

// Returns "[====>     ]".
std::string BarOf(int64_t done, int64_t all) {
  constexpr int64_t kWidth = 10;
  const int64_t filled = all > 0 ? std::clamp(kWidth * done / all, int64_t{0}, kWidth) : 0;
  std::string bar(static_cast<size_t>(filled), '=');
  if (filled < kWidth) bar += '>';
  bar.resize(kWidth, ' ');
  return "[" + bar + "]";
}

// Most important first. `speed` is in iterations per second of wall-clock time, including tests.
std::vector<std::string> PartsOf(const IterationReport& r, double loss, const Pace& pace,
                                 double speed) {
  const auto left = static_cast<double>(r.max_iterations - r.iteration - 1);
  std::vector<std::string> parts = {Format("loss %.4g", loss)};
  parts.push_back("ETA " + (speed > 0 ? DurationText(left / speed) : std::string("?")));
  const double waiting = pace.WaitShare();
  if (std::isfinite(waiting)) {
    const long share = std::lround(100 * std::clamp(waiting, 0.0, 1.0));
    parts.push_back(StrCat("data ", share, " % compute ", 100 - share, " %"));
  }
  parts.push_back(Format("lr %.3g", r.rate));
  const double iterations =
      std::isfinite(pace.IterationsPerSecond()) ? pace.IterationsPerSecond() : speed;
  if (r.samples > 0) {
    parts.push_back(Format("%.0f images/s", iterations * static_cast<double>(r.samples)));
  }
  parts.push_back(Format("%.1f it/s", iterations));
  if (r.epoch > 0) parts.push_back(Format("epoch %.2f", r.epoch));
  return parts;
}

}  // namespace

void LiveLine::OnStart(const std::string& net, int64_t iteration) {
  first_iteration_ = iteration;
  start_ = std::chrono::steady_clock::now();
  Print("training " + net);
}

void LiveLine::OnIteration(const IterationReport& r) {
  constexpr double kPast = 0.9;
  const bool has_past = !progress_.empty() && std::isfinite(loss_);
  loss_ = has_past ? kPast * loss_ + (1 - kPast) * r.smoothed_loss : r.smoothed_loss;
  window_.Add(r);
  progress_ = StrCat("iter ", r.iteration + 1, "/", r.max_iterations);
  const auto now = std::chrono::steady_clock::now();
  const bool last = r.iteration + 1 >= r.max_iterations;
  if (!last && now - drawn_ < interval_) return;
  drawn_ = now;
  const double seconds = std::chrono::duration<double>(now - start_).count();
  const auto done = static_cast<double>(r.iteration - first_iteration_);
  const double speed = done > 0 && seconds > 0 ? done / seconds : 0;
  std::vector<std::string> parts = PartsOf(r, loss_, window_.Total(), speed);
  if (!metric_.empty()) {
    parts.insert(parts.begin() + 1, metric_ + Format(" %.4g", last_) + Format(" best %.4g", best_));
  }
  constexpr size_t kWide = 70;  // columns; below, the bar would take the place of the rest
  if (line_.Columns() >= kWide)
    parts.insert(parts.begin(), BarOf(r.iteration + 1, r.max_iterations));
  parts.insert(parts.begin(), progress_);
  line_.Draw(parts);
}

void LiveLine::OnTestStart(int64_t iteration, size_t net) {
  const std::vector<std::string> parts = {
      progress_.empty() ? StrCat("iter ", iteration) : progress_, StrCat("testing net #", net)};
  line_.Draw(parts);
}

void LiveLine::OnTest(const TestReport& report) {
  if (report.net == 0 && !report.outputs.empty()) {
    const OutputValue& first = report.outputs[0];
    const bool smaller = SmallerIsBetter(first.blob);
    const bool is_best = metric_.empty() || (smaller ? first.value < best_ : first.value > best_);
    metric_ = first.blob;
    last_ = first.value;
    if (is_best) best_ = last_;
  }
  std::string text = StrCat("test #", report.net, " at iteration ", report.iteration, ":");
  if (report.has_loss) text += StrCat(" loss ", report.loss, ";");
  constexpr size_t kMost = 8;
  for (size_t k = 0; k < std::min(kMost, report.outputs.size()); ++k) {
    OutputValue output = report.outputs[k];
    if (output.loss_weight == 1) output.loss_weight = 0;  // " (* 1 = ...)" is for parsers
    text += StrCat(k == 0 ? " " : ", ", DescribeOutput(output));
  }
  Print(text);
}

void LiveLine::OnSnapshot(const std::string& model, const std::string&) {
  Print("snapshot " + model);
}

void LiveLine::OnBest(const std::string& model, const std::string& metric, double value) {
  Print(StrCat("best so far: ", metric, " = ", value, ", in ", model));
}

void LiveLine::OnEnd(bool stopped_early) {
  Print(stopped_early ? "stopped" : "done");
  line_.Clear();
}

}  // namespace crema::tools
