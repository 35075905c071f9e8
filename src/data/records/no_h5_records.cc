// The parts of hdf5_records.h for builds without HDF5.
#include <cstdio>
#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/strings.h"
#include "data/records/hdf5_records.h"
#include "format/file.h"

namespace crema {

bool LooksLikeHdf5Records(const std::string& path) {
  using namespace std::string_view_literals;
  namespace fs = std::filesystem;
  std::error_code ignored;
  if (fs::is_directory(path, ignored)) {
    const std::string list = path + "/" + kHdf5ListName;
    return fs::is_regular_file(list, ignored) && LooksLikeHdf5Records(list);
  }
  if (!fs::is_regular_file(path, ignored)) return false;
  constexpr size_t kLongestPath = 4096;
  const std::string start = ReadFileStart(path, kLongestPath);
  if (start.starts_with("\x89HDF\r\n\x1A\n"sv)) return true;
  const std::string_view text = Trim(start);
  const std::string_view first = text.substr(0, text.find_first_of(" \t\r\n"));
  return first.ends_with(".h5") || first.ends_with(".hdf5");
}

std::string RowKey(uint64_t number) {
  char key[24];
  std::snprintf(key, sizeof(key), "%08llu", static_cast<unsigned long long>(number));
  return key;
}

#ifndef CREMA_HAVE_HDF5
namespace {

[[noreturn]] void FailWithout(const std::string& path) {
  Fail(ErrorCode::kUnsupported,
       StrCat("'", path, "' is a matter of HDF5, and this program was built without it: build ",
              "with CREMA_HDF5=ON"));
}

}  // namespace

std::unique_ptr<RecordReader> OpenHdf5Records(const std::string& path, const Hdf5RecordOptions&) {
  FailWithout(path);
}

std::unique_ptr<RecordWriter> CreateHdf5Records(const std::string& path, const Hdf5RecordOptions&) {
  FailWithout(path);
}

RecordAppender AppendHdf5Records(const std::string& path, const Hdf5RecordOptions&) {
  FailWithout(path);
}
#endif

}  // namespace crema
