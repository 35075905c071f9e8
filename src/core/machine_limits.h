// What this machine is and has left.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

// Bytes that this process can still have, the least of: the memory of the machine and its swap;
// each control group that it is in (version 1 and 2, and the groups around it), where pages of
// files that can be dropped do not count as used; `ulimit -v`, less 64 MiB for addresses that
// nobody uses. 1 when nothing is left, 0 when nothing is known. `root` is the folder with proc and
// sys. Thread safety: any number of threads.
int64_t AvailableMemory(const std::string& root = "");
// Bytes of memory of the machine; 0 when it is not known.
int64_t TotalMemory();
// As it calls itself; "unknown processor" when it does not.
std::string ProcessorName();

}  // namespace crema
