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


}  // namespace crema::tools
