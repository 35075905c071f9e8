#include "format/data_file.h"

#include <utility>
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/prototxt.h"

namespace crema {

std::unique_ptr<RandomFile> OpenDataFile(const std::string& path) {
  try {
    return std::make_unique<RandomFile>(path);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kInvalidArgument) throw;
    Fail(ErrorCode::kDataLoss, error.problems().front().message, {.file = path});
  }
}

std::string ReadDataFile(const std::string& path) {
  const auto file = OpenDataFile(path);
  if (file->size() > kMaxFileBytes) {
    Fail(ErrorCode::kDataLoss, "is larger than 2 GiB", {.file = path});
  }
  return file->Read(0, static_cast<size_t>(file->size()));
}

std::string ReadDataFile(const std::string& path, const std::string& what) {
  try {
    return ReadDataFile(path);
  } catch (const Error& error) {
    const char* between = error.code() == ErrorCode::kNotFound ? "': " : "' ";
    Fail(error.code(), StrCat(what, " '", path, between, error.problems().front().message));
  }
}

LabelMap ReadLabelMap(const std::string& path) {
  LabelMap map;
  std::vector<Problem> problems;
  ParseText(ReadDataFile(path), path, &map, nullptr, &problems);
  if (!problems.empty()) throw Error(std::move(problems));
  return map;
}

}  // namespace crema
