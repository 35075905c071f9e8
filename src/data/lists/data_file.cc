#include "data/lists/data_file.h"

#include "core/error.h"
#include "format/file.h"

namespace crema {

std::string ReadDataFile(const std::string& path) {
  try {
    const RandomFile file(path);
    if (file.size() > kMaxFileBytes) {
      Fail(ErrorCode::kDataLoss, "is larger than 2 GiB", {.file = path});
    }
    return file.Read(0, static_cast<size_t>(file.size()));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    Fail(ErrorCode::kDataLoss, error.problems().front().message, {.file = path});
  }
}

}  // namespace crema
