#include "data/records/data_set_folder.h"

#include <cerrno>
#include <cstring>

#include "core/error.h"
#include "core/strings.h"
#include "format/file.h"

namespace crema {

struct stat ExamineDataSet(const std::string& path) {
  struct stat status {};
  if (stat(path.c_str(), &status) == 0) return status;
  if (errno == ENOENT || errno == ENOTDIR) {
    Fail(ErrorCode::kNotFound, StrCat("there is no data set '", path, "'", DidYouMeanPath(path)));
  }
  Fail(ErrorCode::kIoFailure,
       StrCat("the data set '", path, "' cannot be opened: ", std::strerror(errno)));
}

void MakeDataSetFolder(const std::string& path) {
  if (mkdir(path.c_str(), 0755) == 0) return;
  if (errno == EEXIST) {
    Fail(ErrorCode::kInvalidArgument, StrCat("'", path, "' exists already; choose another path"));
  }
  Fail(ErrorCode::kIoFailure,
       StrCat("cannot make the folder '", path, "' for the data set: ", std::strerror(errno)));
}

}  // namespace crema
