// Files that AtomicFile was writing when its process was killed.
#pragma once

#include <string>
#include <string_view>

namespace crema {

// The name of the file that was to be, where `name` is "<file>.tmp.<pid>" and no such process runs;
// else empty. This process counts as dead, since a container may give the same number each time:
// requires that it is not writing that file.
std::string_view NameOfAbandoned(std::string_view name);

// Removes what is abandoned of exactly this file, as far as that is allowed.
void RemoveAbandoned(const std::string& path);

}  // namespace crema
