// Checks and completes the command line of a command before gflags parses it.
#pragma once

#include <string>
#include <vector>

namespace crema::tools {

// Expands -q and -v, which gflags would take for flags of these names (glog has a --v of its own).
void LengthenFlags(int argc, char** argv);

// Throws kInvalidArgument for unknown flags (gflags would exit with code 1), with a suggestion, for
// missing or wrong values, and for a text that is given twice but holds one value.
void RefuseWrongFlags(int argc, char** argv);

// Sets the flags that positional arguments stand for (flag_table.h), in their order, leaving out
// those that are given; returns the arguments of commands that have no such flags. Then throws
// kInvalidArgument for surplus arguments, and for required flags without a value. Requires: flags
// are parsed.
std::vector<std::string> TakePositional(const std::string& program,
                                        std::vector<std::string> arguments);

}  // namespace crema::tools
