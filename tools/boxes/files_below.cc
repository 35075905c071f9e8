#include "boxes/files_below.h"

#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> ListBelow(const std::string& folder,
                                   const std::function<bool(const std::string&)>& wanted) {
  const std::string root = WithSlash(folder);
  std::vector<std::string> paths;
  try {
    for (auto entry = fs::recursive_directory_iterator(root);
         entry != fs::recursive_directory_iterator(); ++entry) {
      const std::string path = entry->path().string();
      if (entry->path().filename().string().starts_with('.')) {
        if (entry->is_directory()) entry.disable_recursion_pending();
        continue;
      }
      if (entry->is_regular_file() && wanted(path)) paths.push_back(path.substr(root.size()));
    }
  } catch (const fs::filesystem_error& failure) {
    Fail(ErrorCode::kIoFailure, StrCat("cannot list '", folder, "': ", failure.code().message()));
  }
  std::ranges::sort(paths);
  return paths;
}

}  // namespace

std::vector<std::string> FilesBelow(const std::string& folder, std::string_view extension) {
  return ListBelow(folder, [=](const std::string& path) {
    std::string own = fs::path(path).extension().string();
    std::ranges::transform(own, own.begin(), [](unsigned char c) { return tolower(c); });
    return own == extension;
  });
}

std::vector<std::string> ImagesBelow(const std::string& folder) {
  return ListBelow(folder, [](const std::string& path) { return LooksLikeImage(path); });
}

std::map<std::string, std::string> ImagesByStem(const std::string& folder) {
  std::map<std::string, std::string> by_stem;
  for (const std::string& path : ImagesBelow(folder)) {
    const auto [other, added] = by_stem.emplace(WithoutExtension(path), path);
    if (!added) {
      Fail(ErrorCode::kDataLoss, StrCat("'", folder, "' has two pictures of one name, '",
                                        other->second, "' and '", path, "': rename one"));
    }
  }
  return by_stem;
}

std::string WithoutExtension(const std::string& path) {
  return fs::path(path).replace_extension().string();
}

std::string WithSlash(const std::string& folder) {
  return folder.empty() || folder.ends_with('/') ? folder : folder + "/";
}

}  // namespace crema::tools
