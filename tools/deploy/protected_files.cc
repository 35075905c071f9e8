#include "deploy/protected_files.h"

#include <sys/stat.h>

#include <optional>

#include "core/error.h"
#include "core/strings.h"

namespace crema::tools {
namespace {

// Ignores devices and pipes, which may be read and written at the same time.
std::optional<std::pair<dev_t, ino_t>> Identity(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return std::pair(status.st_dev, status.st_ino);
}

}  // namespace

ProtectedFiles::ProtectedFiles(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) Add(path);
}

ProtectedFiles::ProtectedFiles(const std::vector<PictureSource>& sources) {
  for (const PictureSource& source : sources) {
    if (source.kind != PictureSource::Kind::kCamera && source.name != "-") Add(source.name);
  }
}

void ProtectedFiles::Add(const std::string& path) {
  if (const auto file = Identity(path)) files_.insert(*file);
}

void ProtectedFiles::RefuseToReplace(const std::string& flag, const std::string& output) const {
  const auto file = Identity(output);
  if (!file || !files_.contains(*file)) return;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, " would replace ", output, ", which is read; write somewhere else"));
}

}  // namespace crema::tools
