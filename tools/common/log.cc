#include "common/log.h"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"
#include "report/clock.h"

DEFINE_bool(quiet, false, "show warnings and errors only (also -q)");
DEFINE_bool(verbose, false, "show version, time and memory of the command too (also -v)");
DEFINE_string(log_format, "text", "the log on stderr: text, or json (one object a line)");

namespace crema::tools {
namespace {

void WriteToStderr(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(STDERR_FILENO, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;  // nobody listens
    bytes.remove_prefix(static_cast<size_t>(count));
  }
}

// A line each: glog cuts messages at 30,000 characters.
void WriteToGlog(Severity severity, std::string_view message) {
  const int level = severity == Severity::kInfo      ? google::GLOG_INFO
                    : severity == Severity::kWarning ? google::GLOG_WARNING
                                                     : google::GLOG_ERROR;
  while (!message.empty()) {
    const size_t end = std::min(message.find('\n'), message.size());
    google::LogMessage("crema", 0, level).stream() << message.substr(0, end);
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

class ToolLogImpl final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    LogEvent(severity, message, {});
  }
};

const char* NameOf(Severity severity) {
  return severity == Severity::kInfo      ? "info"
         : severity == Severity::kWarning ? "warning"
                                          : "error";
}

}  // namespace

LogField::LogField(std::string field, std::string_view text)
    : name(std::move(field)), json(JsonString(text)) {}
LogField::LogField(std::string field, double number)
    : name(std::move(field)), json(JsonNumber(number)) {}
LogField::LogField(std::string field, int64_t number)
    : name(std::move(field)), json(StrCat(number)) {}

LogSink& ToolLog() {
  static ToolLogImpl log;  // has no state of its own
  return log;
}

std::string JsonLogLine(double unix_time, Severity severity, std::string_view message,
                        const std::vector<LogField>& fields) {
  std::string line = StrCat("{\"time\":", JsonString(UtcText(unix_time)), ",\"severity\":\"",
                            NameOf(severity), "\",\"message\":", JsonString(message));
  for (size_t i = 0; i < fields.size(); ++i) {
    line += StrCat(i == 0 ? ",\"fields\":{" : ",", JsonString(fields[i].name), ":", fields[i].json);
  }
  return line + (fields.empty() ? "}\n" : "}}\n");
}

void LogEvent(Severity severity, std::string_view message, const std::vector<LogField>& fields) {
  const bool shown = severity != Severity::kInfo || !FLAGS_quiet;
  if (IsJsonLog() && shown) WriteToStderr(JsonLogLine(UnixTime(), severity, message, fields));
  const bool to_glog = IsJsonLog() ? !FLAGS_log_dir.empty() : shown || !FLAGS_log_dir.empty();
  if (to_glog) WriteToGlog(severity, message);
}

bool IsQuiet() { return FLAGS_quiet; }
bool IsVerbose() { return FLAGS_verbose; }
bool IsJsonLog() { return FLAGS_log_format == "json"; }

void StartLog(const char* program) {
  if (FLAGS_log_format != "text" && FLAGS_log_format != "json") {
    const std::string given = std::exchange(FLAGS_log_format, "text");
    const std::vector<std::string> known = {"text", "json"};
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--log_format: '", given, "' is not text or json", DidYouMean(given, known)));
  }
  if (FLAGS_quiet && FLAGS_verbose) {
    Fail(ErrorCode::kInvalidArgument, "give --quiet or --verbose, not both");
  }
  // Scripts for Caffe's logs read "I0131"; newer releases of glog would write the year before it.
  google::SetCommandLineOption("log_year_in_prefix", "false");
  FLAGS_logtostderr = true;
  if (!FLAGS_log_dir.empty()) {
    if (access(FLAGS_log_dir.c_str(), W_OK | X_OK) != 0) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("--log_dir: '", FLAGS_log_dir, "' is not a folder that can be written to"));
    }
    FLAGS_logtostderr = false;
    FLAGS_alsologtostderr = !IsJsonLog() && !FLAGS_quiet;
    FLAGS_stderrthreshold = IsJsonLog() ? google::GLOG_FATAL : google::GLOG_WARNING;
  }
  google::InitGoogleLogging(program);
}

void KeepLogOffTerminal() {
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::GLOG_FATAL;
}

}  // namespace crema::tools
