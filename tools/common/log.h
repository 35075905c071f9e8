// The log of a command, configured by --quiet, --verbose, --log_format and --log_dir.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"

namespace crema::tools {

// Logs to stderr, as glog's lines or as JSON, and to glog's files if --log_dir is set. A terminal
// gets the messages alone, warnings and errors marked. --quiet shows only warnings and errors. A
// stderr that is not read blocks for at most 100 ms; then lines are dropped and counted. Thread
// safety: any number of threads.
LogSink& ToolLog();

// Logs only to glog's files; nowhere without --log_dir. For commands that draw on the terminal.
// Thread safety: any number of threads.
LogSink& LogFiles();

// A value logged with a message in --log_format=json.
struct LogField {
  LogField(std::string field, std::string_view text);
  LogField(std::string field, const char* text)
      : LogField(std::move(field), std::string_view(text)) {}
  LogField(std::string field, double number);
  LogField(std::string field, int64_t number);

  std::string name;
  std::string json;
};

// Logs to ToolLog; in text format only the message.
void LogEvent(Severity severity, std::string_view message, const std::vector<LogField>& fields);

// Writes text with its line ends to stderr, unchanged, in order with the log, and without blocking
// on a slow reader. Thread safety: any number of threads.
void WriteToStderr(std::string_view text);

// Waits until stderr has received the whole log, at most for LineWriter::kPatience.
void FlushLog();

// Returns "", "warning: " or "error: ", which precedes a message on stderr; in colour on a terminal
// that has colours, unless NO_COLOR is set.
std::string PrefixOf(Severity severity);

// Logs details that a terminal shows with --verbose only; files and other readers get them always.
// Thread safety: any number of threads.
LogSink& DetailLog();

// Returns true if DetailLog leaves the terminal out.
bool HidesDetails();

// Formats "I1123 17:29:00.123456 12345 crema:0] message", for each line of the message.
std::string TextLogLines(double unix_time, Severity severity, std::string_view message);

// Formats {"time":"...","severity":"info","message":"...","fields":{...}} with a newline.
std::string JsonLogLine(double unix_time, Severity severity, std::string_view message,
                        const std::vector<LogField>& fields);

bool IsQuiet();
bool IsVerbose();
bool IsJsonLog();

// Call it after flags are parsed. Throws kInvalidArgument for conflicting or ineffective flags.
// `program` is argv[0].
void StartLog(const char* program);

}  // namespace crema::tools
