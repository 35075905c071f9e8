#include "common/data_flags.h"

#include <gflags/gflags.h>

#include <array>
#include <string>

#include "common/tool.h"
#include "core/error.h"
#include "core/strings.h"

DEFINE_int32(threads, 0, "threads that read, decode and encode; 0: one for each processor");
DEFINE_int32(j, 0, "the same as --threads");
DEFINE_string(backend, "lmdb", "the kind of data set: lmdb, leveldb or tar");

namespace crema::tools {

int WorkersOfFlags() {
  if (FLAGS_threads != 0 && FLAGS_j != 0 && FLAGS_threads != FLAGS_j) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("--threads is ", FLAGS_threads, ", but -j is ", FLAGS_j, "; give one of them"));
  }
  return CheckedThreads(FLAGS_threads != 0 ? FLAGS_threads : FLAGS_j);
}

DataParameter::DB BackendOfFlag() {
  if (FLAGS_backend == "lmdb") return DataParameter::LMDB;
  if (FLAGS_backend == "leveldb") return DataParameter::LEVELDB;
  if (FLAGS_backend == "tar") return DataParameter::TAR;
  const std::array<std::string, 3> names = {"lmdb", "leveldb", "tar"};
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--backend: '", FLAGS_backend, "' is not lmdb, leveldb or tar",
              DidYouMean(FLAGS_backend, names)));
}

}  // namespace crema::tools
