#include "server/repository/repository_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "core/error.h"
#include "core/strings.h"
#include "server/protocol/names.h"

namespace crema::server {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMostModels = 1000;

bool IsWithin(const fs::path& path, const fs::path& root) {
  const auto [end, ignored] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end == root.end();
}

// The file behind links, where it lies in the repository.
std::string Resolve(const fs::path& file, const fs::path& root, std::string* problem) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) {
    *problem = StrCat(file.filename().string(), " cannot be read");
  } else if (!IsWithin(real, root)) {
    *problem = StrCat(file.filename().string(), " is a link that leads out of the repository");
  } else if (!fs::is_regular_file(real, error)) {
    *problem = StrCat(file.filename().string(), " is no file");
  }
  return real.string();
}

std::chrono::system_clock::time_point TimeOf(const timespec& time) {
  return std::chrono::system_clock::time_point(
      std::chrono::duration_cast<std::chrono::system_clock::duration>(
          std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec)));
}

void Sign(const std::string& file, VersionFiles* files) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    files->problem = "a file is gone";
    return;
  }
  files->signature +=
      StrCat(file, ":", status.st_ino, ":", status.st_size, ":", status.st_mtim.tv_sec, ".",
             status.st_mtim.tv_nsec, ":", status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec, ";");
  files->changed = std::max(files->changed, TimeOf(status.st_ctim));
}

VersionFiles ScanVersion(const fs::path& folder, const fs::path& root) {
  VersionFiles files;
  const std::array<std::pair<const char*, std::string*>, 5> known = {{
      {"model.crema", &files.crema},
      {"model.prototxt", &files.net},
      {"model.caffemodel", &files.weights},
      {"model.caffemodel.h5", &files.weights},
      {"labels.txt", &files.labels},
  }};
  std::error_code error;
  for (const auto& [name, place] : known) {
    const fs::path file = folder / name;
    if (!fs::exists(fs::symlink_status(file, error))) continue;
    *place = Resolve(file, root, &files.problem);
    if (!files.problem.empty()) {
      files.signature = files.problem;
      return files;
    }
    Sign(*place, &files);
  }
  if (files.crema.empty() && (files.net.empty() || files.weights.empty())) {
    files.problem = "neither model.crema nor model.prototxt with model.caffemodel is there";
  }
  return files;
}

std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    std::error_code ignored;
    if (it->is_directory(ignored)) folders.push_back(it->path());
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace

ScannedRepository ScanRepository(const std::string& path) {
  std::error_code error;
  const fs::path root = fs::canonical(path, error);
  if (error || !fs::is_directory(root, error)) {
    Fail(ErrorCode::kNotFound, "is not a folder that can be read", {.file = path});
  }
  ScannedRepository found;
  for (const fs::path& folder : FoldersIn(root)) {
    const std::string name = folder.filename();
    // Links of volumes that orchestrators mount begin with two dots.
    if (name.starts_with('.')) continue;
    if (!IsModelName(name)) {
      found.warnings.push_back(StrCat(folder.string(), " is no name of a model"));
      continue;
    }
    const fs::path real = fs::canonical(folder, error);
    if (error || !IsWithin(real, root)) {
      found.warnings.push_back(StrCat(folder.string(), " leads out of the repository"));
      continue;
    }
    if (found.models.size() >= kMostModels) {
      found.warnings.push_back(StrCat("only ", kMostModels, " models are served"));
      break;
    }
    for (const fs::path& version : FoldersIn(folder)) {
      const int64_t number = ParseVersion(version.filename().string());
      if (number > 0) found.models[name][number] = ScanVersion(version, root);
    }
  }
  return found;
}

}  // namespace crema::server
