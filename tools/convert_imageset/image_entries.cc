#include "convert_imageset/image_entries.h"

#include <filesystem>

#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

// Adds a slash to a folder only: as in Caffe, a root may be the beginning of the file names.
std::string RootOf(const std::string& root) {
  std::error_code ignored;
  const bool needs_slash = !root.empty() && !root.ends_with('/') && fs::is_directory(root, ignored);
  return needs_slash ? root + "/" : root;
}

}  // namespace

std::string ImageEntry::Describe() const {
  return place.empty() ? StrCat("'", path, "'") : StrCat("'", path, "' (", place, ")");
}

std::vector<ImageEntry> ReadImageEntries(const std::string& list, const std::string& root_folder) {
  const std::string root = RootOf(root_folder);
  std::vector<ImageEntry> entries;
  const ImageList images(list, root);
  for (const ImageList::Entry& image : images.entries()) {
    entries.push_back({.name = image.path.substr(root.size()),
                       .path = image.path,
                       .place = StrCat("line ", image.line, " of '", list, "'"),
                       .label = image.label});
  }
  return entries;
}

ClassFolders ReadClassFolders(const std::string& root_folder) {
  std::error_code ignored;
  if (!fs::is_directory(root_folder, ignored)) {
    Fail(ErrorCode::kNotFound, StrCat("there is no folder '", root_folder, "' with a folder of ",
                                      "images for each class", DidYouMeanPath(root_folder)));
  }
  const ImageList images(root_folder, "");
  ClassFolders found{.classes = images.classes(), .entries = {}};
  const size_t root = RootOf(root_folder).size();
  for (const ImageList::Entry& image : images.entries()) {
    found.entries.push_back(
        {.name = image.path.substr(root), .path = image.path, .place = "", .label = image.label});
  }
  return found;
}

}  // namespace crema::tools
