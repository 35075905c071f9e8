#include "common/log.h"

#include <gflags/gflags.h>
#include <glog/logging.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <utility>

#include "core/error.h"
#include "core/json.h"
#include "core/line_writer.h"
#include "core/strings.h"
#include "report/clock.h"

DEFINE_bool(quiet, false, "[Output] show warnings and errors only (also -q)");
DEFINE_bool(
    verbose, false,
    "[Output] show more: version, time and memory of the command, the layers of a net that is "
    "trained (also -v)");
DEFINE_string(log_format, "text",
              "[Output text|json] the log on stderr: text, or json (one object a line)");

namespace crema::tools {
namespace {

bool IsTerminal() { return ::isatty(STDERR_FILENO) != 0; }

bool HasColours() {
  const char* const off = std::getenv("NO_COLOR");
  const char* const terminal = std::getenv("TERM");
  return (off == nullptr || *off == '\0') && terminal != nullptr &&
         std::string_view(terminal) != "dumb" && IsTerminal();
}

// Returns a message as stderr shows it.
std::string TextOf(double unix_time, Severity severity, std::string_view message) {
  if (!IsTerminal()) return TextLogLines(unix_time, severity, message);
  return StrCat(PrefixOf(severity), message, message.ends_with('\n') ? "" : "\n");
}

// Never destroyed: code that runs at exit may log.
LineWriter& Stderr() {
  // NOLINTNEXTLINE(cppcoreguidelines-avoid-non-const-global-variables)
  static LineWriter& writer = *new LineWriter(STDERR_FILENO, [](int64_t lines) {
    const std::string message =
        StrCat(lines, " lines of the log were dropped: no reader took them");
    return IsJsonLog() ? JsonLogLine(UnixTime(), Severity::kWarning, message, {})
                       : TextOf(UnixTime(), Severity::kWarning, message);
  });
  return writer;
}

int GlogLevel(Severity severity) {
  return severity == Severity::kInfo      ? google::GLOG_INFO
         : severity == Severity::kWarning ? google::GLOG_WARNING
                                          : google::GLOG_ERROR;
}

// Calls `use` with each line of the message: glog truncates messages at 30,000 characters.
template <typename Use>
void ForEachLine(std::string_view message, const Use& use) {
  while (!message.empty()) {
    const size_t end = std::min(message.find('\n'), message.size());
    use(message.substr(0, end));
    message.remove_prefix(std::min(end + 1, message.size()));
  }
}

class ToolLogImpl final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    LogEvent(severity, message, {});
  }
};

class DetailLogImpl final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    (HidesDetails() ? LogFiles() : ToolLog()).Write(severity, message);
  }
};

class LogFilesImpl final : public LogSink {
 public:
  void Write(Severity severity, std::string_view message) override {
    if (FLAGS_log_dir.empty()) return;
    ForEachLine(message, [level = GlogLevel(severity)](std::string_view line) {
      google::LogMessage("crema", 0, level).stream() << line;
    });
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
  static ToolLogImpl log;  // has no state
  return log;
}

LogSink& LogFiles() {
  static LogFilesImpl log;  // has no state
  return log;
}

LogSink& DetailLog() {
  static DetailLogImpl log;  // has no state
  return log;
}

bool HidesDetails() { return IsTerminal() && !IsVerbose() && !IsJsonLog(); }

std::string PrefixOf(Severity severity) {
  if (severity == Severity::kInfo) return "";
  const std::string prefix = StrCat(NameOf(severity), ": ");
  if (!HasColours()) return prefix;
  return StrCat(severity == Severity::kWarning ? "\033[33m" : "\033[31m", prefix, "\033[0m");
}

void WriteToStderr(std::string_view text) { Stderr().WriteThrough(text); }

void FlushLog() { Stderr().Flush(LineWriter::kPatience); }

// Format of glog: "I1123 17:29:00.123456 12345 crema:0] message".
std::string TextLogLines(double unix_time, Severity severity, std::string_view message) {
  const auto seconds = static_cast<std::time_t>(unix_time);
  const auto micros = static_cast<int>((unix_time - static_cast<double>(seconds)) * 1e6);
  std::tm parts{};
  localtime_r(&seconds, &parts);
  std::array<char, 80> head{};
  std::snprintf(head.data(), head.size(), "%c%02d%02d %02d:%02d:%02d.%06d %5ld crema:0] ",
                "IWE"[GlogLevel(severity)], parts.tm_mon + 1, parts.tm_mday, parts.tm_hour,
                parts.tm_min, parts.tm_sec, micros, static_cast<long>(::gettid()));
  std::string lines;
  ForEachLine(message, [&](std::string_view line) { lines += StrCat(head.data(), line, "\n"); });
  return lines;
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
  const double now = UnixTime();
  if (severity != Severity::kInfo || !FLAGS_quiet) {
    if (IsJsonLog()) {
      WriteToStderr(JsonLogLine(now, severity, message, fields));
    } else if (GlogLevel(severity) >= FLAGS_minloglevel) {
      WriteToStderr(TextOf(now, severity, message));
    }
  }
  LogFiles().Write(severity, message);
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
  if (FLAGS_log_dir.empty()) return;
  if (access(FLAGS_log_dir.c_str(), W_OK | X_OK) != 0) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--log_dir: '", FLAGS_log_dir, "' is not a folder that can be written to"));
  }
  // glog writes only the files: on stderr it would block on a slow reader.
  FLAGS_logtostderr = false;
  FLAGS_alsologtostderr = false;
  FLAGS_stderrthreshold = google::GLOG_FATAL;
  // Scripts for Caffe's logs expect "I0131"; newer releases of glog would prepend the year.
  google::SetCommandLineOption("log_year_in_prefix", "false");
  google::InitGoogleLogging(program);
}

}  // namespace crema::tools
