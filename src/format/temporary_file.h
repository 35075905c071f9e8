// Temporary files of AtomicFile, including those of killed processes.
#pragma once

#include <string>

namespace crema {

// Returns "<path>.tmp.<host>.<pid>-<random>", unpredictable and different each time.
std::string TemporaryPath(const std::string& path);

// Locks the file until the descriptor is closed, which marks it as being written for other
// processes, also in other containers. Does nothing if the file system has no locks.
void MarkAsBeingWritten(int descriptor);

// Returns the name, without folder, of the target file if `path` is a temporary file of a process
// that is gone; else empty. A locked file is being written. For processes elsewhere (network mount,
// container), a day without a change counts as gone. Files with this process's number count as
// abandoned, since containers may reuse it. Requires: this process is not writing the file. Also
// accepts "<path>.tmp.<host>.<pid>" of earlier versions.
std::string NameOfAbandoned(const std::string& path);

// Removes abandoned temporary files of exactly this file. Ignores errors.
void RemoveAbandoned(const std::string& path);

}  // namespace crema
