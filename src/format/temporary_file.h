// The files that AtomicFile writes to, and those that it was writing when its process was killed.
#pragma once

#include <string>

namespace crema {

// "<path>.tmp.<host>.<pid>".
std::string TemporaryPath(const std::string& path);

// The name, without folder, of the file that was to be, where `path` is that of a temporary file
// and the process is gone; else empty. Of a process elsewhere (a network mount, a container) nobody
// knows: a day without a change counts as gone. This process counts as dead, since a container may
// give the same number each time: requires that it is not writing that file.
std::string NameOfAbandoned(const std::string& path);

// Removes what is abandoned of exactly this file, as far as that is allowed.
void RemoveAbandoned(const std::string& path);

}  // namespace crema
