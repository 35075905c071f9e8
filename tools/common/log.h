// The log of a command, as --quiet, --verbose, --log_format and --log_dir say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"

namespace crema::tools {

// On stderr, as glog's lines or as JSON, and in glog's files where --log_dir is given; with --quiet
// only warnings and errors are shown. A stderr that nobody reads holds nothing up for longer than
// 100 ms: lines are dropped then, and counted. Thread safety: any number of threads.
LogSink& ToolLog();

// Glog's files alone; nothing without --log_dir. For commands that draw on the terminal themselves.
// Thread safety: any number of threads.
LogSink& LogFiles();

// A value that stands beside a message in --log_format=json.
struct LogField {
  LogField(std::string field, std::string_view text);
  LogField(std::string field, const char* text)
      : LogField(std::move(field), std::string_view(text)) {}
  LogField(std::string field, double number);
  LogField(std::string field, int64_t number);

  std::string name;
  std::string json;
};

// A line of ToolLog; as text it is the message alone.
void LogEvent(Severity severity, std::string_view message, const std::vector<LogField>& fields);

// Writes text with its line ends to stderr, as it is, in order with the log and without waiting for
// a reader either. Thread safety: any number of threads.
void WriteToStderr(std::string_view text);

// Waits until stderr has all of the log, or for LineWriter::kPatience.
void FlushLog();

// "I1123 17:29:00.123456 12345 crema:0] message", for each line of the message.
std::string TextLogLines(double unix_time, Severity severity, std::string_view message);

// {"time":"...","severity":"info","message":"...","fields":{...}} with its line end.
std::string JsonLogLine(double unix_time, Severity severity, std::string_view message,
                        const std::vector<LogField>& fields);

bool IsQuiet();
bool IsVerbose();
bool IsJsonLog();

// Once flags are read. Throws kInvalidArgument for flags that contradict each other or that are of
// no use. `program` is argv[0].
void StartLog(const char* program);

}  // namespace crema::tools
