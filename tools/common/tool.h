// What every command shares: flags, the log, one place where errors end.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "common/log.h"

namespace crema::tools {

// Parses gflags, starts the log, calls `body` with the positional arguments, and returns the exit
// code: what `body` returns, or the code of an Error (printed on stderr). `usage` is what --help
// prints above the flags of this command. SIGPIPE is ignored; where the reader of stdout has gone,
// the command ends without a message, with the exit code that SIGPIPE would give, 141.
int RunTool(int argc, char** argv, const char* usage,
            const std::function<int(std::vector<std::string>)>& body);

// Prints a line on stdout, for commands whose work is done without it: waits a second at most for
// somebody who reads. Throws kIoFailure where it cannot be written, but not for a reader that has
// gone. Requires that nothing else is printed.
void PrintLastLine(const std::string& line);

// Throws kInvalidArgument unless the flag `name` was given.
void RequireFlag(const std::string& value, const char* name);

// The value of --threads: 0 becomes the number of processors. Throws kInvalidArgument outside
// 0..1024.
int CheckedThreads(int threads);

// For commands that take flags only: throws kInvalidArgument for anything else.
void RefusePositional(const std::vector<std::string>& arguments);

}  // namespace crema::tools
