// Shared by all commands: flags, log, and error reporting.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/log.h"
#include "core/error.h"

namespace crema::tools {

// Parses gflags, starts the log, calls `body` with the positional arguments, and returns the exit
// code: that of `body`, or of an Error (printed on stderr). --help prints `usage` above the flags
// of this command. Ignores SIGPIPE; if the reader of stdout has exited, the command ends without a
// message, with SIGPIPE's exit code, 141.
int RunTool(int argc, char** argv, const char* usage,
            const std::function<int(std::vector<std::string>)>& body);

// Reports an error as RunTool does. Returns its exit code.
int ReportError(const Error& error);

// Prints a line on stdout that is not essential to the command: waits at most a second for a
// reader. Throws kIoFailure if it cannot be written, but not if the reader has exited. Requires: no
// other output.
void PrintLastLine(const std::string& line);

// Throws kInvalidArgument unless the flag `name` was given.
void RequireFlag(const std::string& value, const char* name);

// Returns true if a program of Caffe's name runs this command (tools/caffe.sh): errors then have
// Caffe's exit code, and evaluate and profile print Caffe's lines.
bool IsAsCaffe();

// Returns the value of --threads, with 0 replaced by the number of processors. Throws
// kInvalidArgument outside 0..1024.
int CheckedThreads(int threads);

// Returns true if the flag was given on the command line.
bool IsGiven(const char* flag);

// For commands without positional arguments: throws kInvalidArgument if there are any.
void RefusePositional(const std::vector<std::string>& arguments);

}  // namespace crema::tools
