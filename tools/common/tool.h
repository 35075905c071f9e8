// What every command shares: flags, the log, one place where errors end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/log.h"

namespace crema::tools {

// A log sink over glog: stderr, and files where --log_dir is given. Made once by main.
LogSink& GlogSink();

// Parses gflags, starts the log, calls `body` with the positional arguments, and returns the exit
// code: what `body` returns, or the code of an Error (printed on stderr). `usage` is what --help
// prints above the flags of this command.
int RunTool(int argc, char** argv, const char* usage,
            const std::function<int(std::vector<std::string>)>& body);

// Throws kInvalidArgument unless the flag `name` was given.
void RequireFlag(const std::string& value, const char* name);

// The value of --threads: 0 becomes the number of processors. Throws kInvalidArgument outside
// 0..1024.
int CheckedThreads(int threads);

// For commands that take flags only: throws kInvalidArgument for anything else.
void RefusePositional(const std::vector<std::string>& arguments);

// Sends the log to its files only (--log_dir), for commands that draw on the terminal themselves.
void KeepLogOffTerminal();

}  // namespace crema::tools
