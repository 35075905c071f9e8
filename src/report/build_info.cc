#include "report/build_info.h"

// Defined for this file only (src/CMakeLists.txt), so that a new revision recompiles nothing else.
#ifndef CREMA_VERSION
#define CREMA_VERSION "unknown"
#endif
#ifndef CREMA_REVISION
#define CREMA_REVISION ""
#endif
#ifndef CREMA_BUILD_TYPE
#define CREMA_BUILD_TYPE ""
#endif

namespace crema {

BuildInfo ThisBuild() {
#ifdef __clang__
  const std::string compiler = "clang " __clang_version__;
#else
  const std::string compiler = "gcc " __VERSION__;
#endif
  return {CREMA_VERSION, CREMA_REVISION, compiler, CREMA_BUILD_TYPE};
}

}  // namespace crema
