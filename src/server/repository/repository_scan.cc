#include "server/repository/repository_scan.h"

#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <string_view>
#include <system_error>
#include <utility>

#include "core/error.h"
#include "core/folder.h"
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

bool IsMissing(const std::error_code& error) {
  return error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory ||
         error == std::errc::too_many_symbolic_link_levels;
}

bool HasControls(std::string_view text) {
  return std::ranges::any_of(text, [](unsigned char c) { return c < 0x20 || c == 0x7f; });
}

// For log lines: escapes control characters as \xNN.
std::string Printable(const fs::path& path) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const char c : path.string()) {
    if (!HasControls({&c, 1})) {
      text += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    text += "\\x";
    text += kDigits[byte >> 4U];
    text += kDigits[byte & 0xFU];
  }
  return text;
}

// Resolves links; the result must be inside of the repository.
std::string Resolve(const fs::path& file, const fs::path& root, std::string* problem) {
  std::error_code error;
  const fs::path real = fs::canonical(file, error);
  if (error) {
    *problem = StrCat(file.filename().string(), " cannot be read");
  } else if (!IsWithin(real, root)) {
    *problem = StrCat(file.filename().string(), " is a link that leads out of the repository");
  } else if (!fs::is_regular_file(real, error)) {
    *problem = StrCat(file.filename().string(), " is no file");
  } else if (HasControls(real.string().substr(root.string().size()))) {
    // Would break messages into several lines.
    *problem = StrCat(file.filename().string(), " is a link to a name with control characters");
  }
  return real.string();
}

void Sign(const std::string& file, VersionFiles* files) {
  struct stat status {};
  if (::stat(file.c_str(), &status) != 0) {
    files->problem = "a file was deleted";
    return;
  }
  files->signature +=
      StrCat(file, ":", status.st_ino, ":", status.st_size, ":", status.st_mtim.tv_sec, ".",
             status.st_mtim.tv_nsec, ":", status.st_ctim.tv_sec, ".", status.st_ctim.tv_nsec, ";");
}

constexpr const char* kNoFiles =
    "neither model.crema nor model.onnx, model.prototxt with model.caffemodel, nor cascade.txt is "
    "there";

// The nets of a cascade, whose names are in its file.
void SignOthers(const fs::path& folder, const fs::path& root, VersionFiles* files) {
  std::error_code error;
  std::vector<std::string> names = NamesIn(folder.string(), error);
  std::ranges::sort(names);
  for (const std::string& name : names) {
    std::error_code ignored;
    if (!fs::is_regular_file(folder / name, ignored)) continue;
    const std::string file = Resolve(folder / name, root, &files->problem);
    if (!files->problem.empty()) return;
    Sign(file, files);
  }
  if (error) files->problem = StrCat("the folder cannot be listed: ", error.message());
}

VersionFiles ScanVersion(const fs::path& folder, const fs::path& root) {
  VersionFiles files;
  std::error_code gone;
  files.folder = fs::canonical(folder, gone).string();
  if (gone) {
    files.problem = files.signature = "the folder was deleted";
    return files;
  }
  const std::array<std::pair<const char*, std::string*>, 8> known = {{
      {"model.crema", &files.crema},
      {"model.onnx", &files.onnx},
      {"model.onnx.data", &files.data},
      {"model.prototxt", &files.net},
      {"model.caffemodel", &files.weights},
      {"model.caffemodel.h5", &files.weights},
      {"cascade.txt", &files.cascade},
      {"labels.txt", &files.labels},
  }};
  for (const auto& [name, place] : known) {
    const fs::path file = folder / name;
    std::error_code error;
    const fs::file_status status = fs::symlink_status(file, error);
    if (status.type() == fs::file_type::not_found) continue;
    if (error) {
      files.unknown = true;
      files.problem = StrCat("the folder cannot be looked into: ", error.message());
    } else {
      *place = Resolve(file, root, &files.problem);
    }
    if (!files.problem.empty()) {
      files.signature = files.problem;
      return files;
    }
    Sign(*place, &files);
  }
  const bool pair = !files.net.empty() && !files.weights.empty();
  if (!files.crema.empty() || !files.onnx.empty() || pair) {
    files.cascade.clear();
  } else if (files.cascade.empty()) {
    files.problem = kNoFiles;
  } else {
    SignOthers(folder, root, &files);
  }
  files.signature += files.problem;
  return files;
}

// Throws kIoFailure: an unreadable folder is not an empty one.
std::vector<fs::path> FoldersIn(const fs::path& folder) {
  std::vector<fs::path> folders;
  std::error_code error;
  for (const std::string& name : NamesIn(folder.string(), error)) {
    fs::path path = folder / name;
    std::error_code unseen;
    if (fs::is_directory(path, unseen)) folders.push_back(std::move(path));
    if (unseen && !IsMissing(unseen)) error = unseen;  // a link to an inaccessible target
  }
  if (error) {
    Fail(ErrorCode::kIoFailure, StrCat("the folder cannot be listed: ", error.message()),
         {.file = Printable(folder)});
  }
  std::ranges::sort(folders);
  return folders;
}

using VersionsOfModel = std::map<int64_t, VersionFiles>;

VersionsOfModel ScanModel(const fs::path& folder, const fs::path& root) {
  VersionsOfModel versions;
  for (const fs::path& version : FoldersIn(folder)) {
    const int64_t number = ParseVersion(version.filename().string());
    if (number > 0) versions[number] = ScanVersion(version, root);
  }
  return versions;
}

// Returns true if `folder` may be a model; otherwise adds to the warnings or to the unknown ones.
bool IsModel(const fs::path& folder, const fs::path& root, ScannedRepository* found) {
  const std::string name = folder.filename();
  // Orchestrators mount volumes with links that begin with two dots.
  if (name.starts_with('.')) return false;
  if (!IsModelName(name)) {
    found->warnings.push_back(StrCat(Printable(folder), " is no name of a model"));
    return false;
  }
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) {
    if (!IsMissing(error)) found->unknown.insert(name);
    return false;
  }
  if (IsWithin(real, root)) return true;
  found->warnings.push_back(StrCat(folder.string(), " leads out of the repository"));
  return false;
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
    if (!IsModel(folder, root, &found)) continue;
    if (found.models.size() >= kMostModels) {
      found.warnings.push_back(StrCat("only ", kMostModels, " models are served"));
      break;
    }
    const std::string name = folder.filename();
    try {
      VersionsOfModel versions = ScanModel(folder, root);
      if (versions.empty()) {
        found.warnings.push_back(StrCat(folder.string(), " is ignored: it has no folder of a ",
                                        "version; expected ", name, "/1/model.crema"));
      } else {
        found.models[name] = std::move(versions);
      }
    } catch (const Error& failure) {
      // Unless it was removed since it was listed.
      if (!fs::exists(folder, error) && !error) continue;
      found.unknown.insert(name);
      found.warnings.emplace_back(failure.what());
    }
  }
  if (found.models.empty() && found.unknown.empty()) {
    std::string stray;
    for (const fs::directory_entry& entry : fs::directory_iterator(root, error)) {
      if (entry.path().extension() != ".crema" || HasControls(entry.path().string())) continue;
      stray = StrCat("; move ", entry.path().string(), " to ",
                     (root / entry.path().stem() / "1/model.crema").string());
    }
    found.warnings.push_back(
        StrCat("no model in ", path, "; expected DIR/<model>/<version>/model.crema there", stray));
  }
  return found;
}

}  // namespace crema::server
