// Runs another program.
#pragma once

#include <string>
#include <vector>

namespace crema {

// Runs the program `arguments[0]`, found by PATH, and waits for its end. Its standard error goes to
// the file `errors`, unless that is empty. Returns the exit code; as a shell does, 127 if the
// program cannot be started, and 128 plus the signal that ended it. Thread safety: any number of
// threads.
int RunProgram(const std::vector<std::string>& arguments, const std::string& errors = {});

}  // namespace crema
