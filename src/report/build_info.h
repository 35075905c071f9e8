// Identifies the build of Crema.
#pragma once

#include <string>

namespace crema {

struct BuildInfo {
  std::string version;
  std::string revision;  // source revision at configure time; empty: unknown
  std::string compiler;
  std::string type;  // "Release"
};

BuildInfo ThisBuild();

}  // namespace crema
