#include "common/backend_flag.h"

#include <gflags/gflags.h>

#include <array>
#include <string>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"

DEFINE_string(backend, "lmdb",
              "[Output lmdb|leveldb|tar] the kind of data set: lmdb, leveldb or tar (convert_db: "
              "also hdf5; convert_boxes: no tar)");

namespace crema::tools {

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
