#include "common/worker_flags.h"

#include <gflags/gflags.h>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_int32(threads, 0, "[Run N] threads that read, decode and encode; 0: one for each processor");
DEFINE_int32(j, 0, "[Run N] the same as --threads");

namespace crema::tools {

int WorkersOfFlags() {
  if (FLAGS_threads != 0 && FLAGS_j != 0 && FLAGS_threads != FLAGS_j) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--threads is ", FLAGS_threads, ", but -j is ", FLAGS_j, "; give one of them"));
  }
  return CheckedThreads(FLAGS_threads != 0 ? FLAGS_threads : FLAGS_j);
}

}  // namespace crema::tools
