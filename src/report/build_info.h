// Which build of Crema this is.
#pragma once

#include <string>

namespace crema {

struct BuildInfo {
  std::string version;
  std::string revision;  // of the sources when the build was configured; empty: not known
  std::string compiler;
  std::string type;  // "Release"
};

BuildInfo ThisBuild();

}  // namespace crema
