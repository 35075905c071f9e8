#include "common/progress_line.h"

#include <unistd.h>

#include <cstdio>

#include "common/log.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

std::string RateText(double rate, const std::string& unit) {
  char text[32];
  std::snprintf(text, sizeof(text), rate < 10 ? "%.1f " : "%.0f ", rate);
  return StrCat(text, unit, "/s");
}

}  // namespace

std::vector<std::string> ProgressParts(const std::string& unit, uint64_t done, uint64_t total,
                                       uint64_t added, double seconds) {
  std::vector<std::string> parts;
  const std::string of_total = total > 0 ? StrCat("/", total) : "";
  parts.push_back(StrCat(done, of_total, " ", unit));
  const double rate = seconds > 0 ? static_cast<double>(added) / seconds : 0;
  if (total > 0) {
    const std::string left =
        rate > 0 && done <= total ? DurationText(static_cast<double>(total - done) / rate) : "?";
    parts.push_back(StrCat(100 * done / total, " %"));
    parts.push_back(StrCat("ETA ", left));
  }
  if (rate > 0) parts.push_back(RateText(rate, unit));
  return parts;
}

ProgressLine::ProgressLine(Options options)
    : options_(std::move(options)), interval_(seconds(10)), done_(options_.done) {
  if (isatty(STDERR_FILENO) != 0 && !IsQuiet() && !IsJsonLog()) {
    line_.emplace(STDERR_FILENO);
    interval_ = milliseconds(100);
  }
}

void ProgressLine::Add(uint64_t items) {
  done_ += items;
  const Clock::time_point now = Clock::now();
  if (now - shown_ >= interval_) Show(now);
}

void ProgressLine::Show(Clock::time_point now) {
  shown_ = now;
  const double passed = std::chrono::duration<double>(now - start_).count();
  const uint64_t added = done_ - options_.done;
  const std::vector<std::string> parts =
      ProgressParts(options_.unit, done_, options_.total, added, passed);
  if (line_) {
    line_->Draw(parts);
    return;
  }
  std::vector<LogField> fields = {{"done", static_cast<int64_t>(done_)}};
  if (options_.total > 0) fields.emplace_back("total", static_cast<int64_t>(options_.total));
  fields.emplace_back("per_second", passed > 0 ? static_cast<double>(added) / passed : 0);
  LogEvent(Severity::kInfo, Join(parts, "  "), fields);
}

void ProgressLine::Warn(const std::string& text) {
  if (line_) {
    line_->Print(PrefixOf(Severity::kWarning) + text);
  } else {
    LogEvent(Severity::kWarning, text, {});
  }
}

void ProgressLine::Clear() {
  if (line_) line_->Clear();
}

}  // namespace crema::tools
