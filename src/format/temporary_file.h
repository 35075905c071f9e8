// The files that AtomicFile writes to, and those that it was writing when its process was killed.
#pragma once

#include <string>

namespace crema {

// Returns "<path>.tmp.<host>.<pid>-<random>", another one each time, which nobody can foresee.
std::string TemporaryPath(const std::string& path);

// Locks the file until the descriptor is closed, which tells other processes, also those of other
// containers, that it is being written. Does nothing where the file system has no locks.
void MarkAsBeingWritten(int descriptor);

// The name, without folder, of the file that was to be, where `path` is that of a temporary file
// and the process is gone; else empty. A file that is locked is being written. Of a process
// elsewhere (a network mount, a container) nobody knows: a day without a change counts as gone.
// This process counts as dead, since a container may give the same number each time: requires that
// it is not writing that file. Takes also "<path>.tmp.<host>.<pid>", as earlier versions wrote it.
std::string NameOfAbandoned(const std::string& path);

// Removes what is abandoned of exactly this file, as far as that is allowed.
void RemoveAbandoned(const std::string& path);

}  // namespace crema
