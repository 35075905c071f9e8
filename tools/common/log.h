// The log of a command, as --quiet, --verbose, --log_format and --log_dir say.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/log.h"

namespace crema::tools {

// On stderr, as glog's lines or as JSON, and in glog's files where --log_dir is given; with --quiet
// only warnings and errors are shown. Thread safety: any number of threads.
LogSink& ToolLog();

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

// {"time":"...","severity":"info","message":"...","fields":{...}} with its line end.
std::string JsonLogLine(double unix_time, Severity severity, std::string_view message,
                        const std::vector<LogField>& fields);

bool IsQuiet();
bool IsVerbose();
bool IsJsonLog();

// Once flags are read. Throws kInvalidArgument for flags that contradict each other or that are of
// no use. `program` is argv[0].
void StartLog(const char* program);

// Sends the log to its files only (--log_dir), for commands that draw on the terminal themselves.
void KeepLogOffTerminal();

}  // namespace crema::tools
