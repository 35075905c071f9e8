// Resources and name of this machine.
#pragma once

#include <cstdint>
#include <string>

namespace crema {

// Returns the bytes that this process can still allocate, the least of: the machine's memory and
// swap; each control group of the process (version 1 and 2, including parents), not counting
// reclaimable file pages as used; `ulimit -v`, less 64 MiB of reserved addresses. 1: nothing is
// left; 0: unknown. `root` is the folder with proc and sys. Thread safety: any number of threads.
int64_t AvailableMemory(const std::string& root = "");
// Returns the processors whose time the control groups of the process allow it to take (cpu.max, or
// cpu.cfs_quota_us of version 1), rounded up; 0: no limit. `root` is as above. Thread safety: any
// number of threads.
int ProcessorQuota(const std::string& root = "");
// Returns the bytes of memory of the machine; 0 if unknown.
int64_t TotalMemory();
// Returns the name that the processor reports; otherwise "unknown processor".
std::string ProcessorName();
// Returns the host name, for file names that several machines may share: "host" if unknown;
// contains no '/'. Thread safety: any thread.
std::string HostName();

}  // namespace crema
