// A folder with one folder of images per class.
#include <algorithm>
#include <filesystem>
#include <functional>

#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"

namespace crema {
namespace {

namespace fs = std::filesystem;

using Visit = std::function<void(const fs::directory_entry&)>;

// Visits the entries of a folder, unordered, except those that begin with a dot.
void VisitFolder(const std::string& folder, const Visit& visit) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!entry.path().filename().native().starts_with('.')) visit(entry);
    }
  } catch (const fs::filesystem_error& error) {
    Fail(ErrorCode::kIoFailure,
         StrCat("the folder '", folder, "' cannot be read: ", error.code().message()));
  }
}

bool IsFolder(const fs::directory_entry& entry) {
  std::error_code ignored;
  return entry.is_directory(ignored);
}

// Follows links to folders only at the level of classes: below, they may form cycles.
void FindImages(const std::string& folder, std::vector<std::string>* paths) {
  VisitFolder(folder, [&](const fs::directory_entry& entry) {
    std::error_code ignored;
    const std::string& path = entry.path().native();
    if (IsFolder(entry)) {
      if (!entry.is_symlink(ignored)) FindImages(path, paths);
    } else if (LooksLikeImage(path)) {
      paths->push_back(path);
    }
  });
}

}  // namespace

std::vector<std::string> ClassFoldersIn(const std::string& folder) {
  std::vector<std::string> names;
  VisitFolder(folder, [&](const fs::directory_entry& entry) {
    if (IsFolder(entry)) names.push_back(entry.path().filename().native());
  });
  std::ranges::sort(names);  // byte order, independent of the locale
  return names;
}

void ImageList::ReadFolder() {
  if (!root_.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", source_,
                "' is a folder of classes, not a list: give its whole path, and no root folder "
                "to put before it"));
  }
  if (labels_ > 1) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("'", source_,
                "' is a folder of classes, which gives one label an image, but "
                "label_count is ",
                labels_));
  }
  classes_ = ClassFoldersIn(source_);
  if (classes_.empty()) {
    bool has_images = false;
    VisitFolder(source_, [&](const fs::directory_entry& entry) {
      has_images = has_images || LooksLikeImage(entry.path().native());
    });
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", source_, "' is ", has_images ? "full of images" : "empty",
                ": it should hold a folder of images for each class"));
  }
  for (size_t i = 0; i < classes_.size(); ++i) {
    AddClass((fs::path(source_) / classes_[i]).native(), static_cast<int>(i));
  }
}

void ImageList::AddClass(const std::string& folder, int label) {
  std::vector<std::string> paths;
  FindImages(folder, &paths);
  if (paths.empty()) {
    Fail(ErrorCode::kDataLoss,
         StrCat("the folder '", folder, "' of class ", label,
                " holds no images (.jpg, .png and so on): remove it, or add some"));
  }
  std::ranges::sort(paths);
  for (std::string& path : paths) {
    if (labels_ > 0) numbers_.push_back(label);
    entries_.push_back({.path = std::move(path), .label = label, .line = 0});
  }
}

}  // namespace crema
