#include "convert_imageset/image_entries.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>

#include "common/csv.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/lists/image_list.h"
#include "format/data_file.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

std::string WithSlash(const std::string& root) {
  std::error_code ignored;
  const bool needs_slash = !root.empty() && !root.ends_with('/') && fs::is_directory(root, ignored);
  return needs_slash ? root + "/" : root;
}

bool ParseLabel(std::string_view text, int* label) {
  const std::string_view word = Trim(text);
  const auto [end, error] = std::from_chars(word.begin(), word.end(), *label);
  return error == std::errc() && end == word.end();
}

std::vector<ImageEntry> ReadCsv(const std::string& list, const std::string& root) {
  std::vector<ImageEntry> entries;
  const std::vector<std::vector<std::string>> rows = ParseCsv(ReadDataFile(list));
  for (size_t i = 0; i < rows.size(); ++i) {
    ImageEntry entry;
    const bool fine = rows[i].size() == 2 && ParseLabel(rows[i][1], &entry.label);
    if (!fine && i == 0 && rows[i].size() == 2) continue;  // the heading
    entry.name = Trim(rows[i][0]);
    entry.path = root + entry.name;
    entry.place = StrCat("row ", i + 1, " of '", list, "'");
    if (!fine) {
      Fail(ErrorCode::kDataLoss, StrCat("row ", i + 1, " is not `path,label` with a whole number"),
           {.file = list});
    }
    entries.push_back(std::move(entry));
  }
  if (entries.empty()) Fail(ErrorCode::kDataLoss, "lists no images", {.file = list});
  return entries;
}

bool IsImage(const fs::path& path) {
  constexpr std::array kExtensions = {".jpg", ".jpeg", ".png",  ".bmp", ".ppm", ".pgm",
                                      ".tif", ".tiff", ".webp", ".jp2", ".gif"};
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return tolower(c); });
  return std::ranges::find(kExtensions, extension) != kExtensions.end();
}

// Returns paths below `root`, sorted.
std::vector<std::string> ImagesBelow(const std::string& root, const std::string& folder) {
  std::vector<std::string> names;
  const auto options = fs::directory_options::follow_directory_symlink;
  for (const auto& file : fs::recursive_directory_iterator(root + folder, options)) {
    if (file.is_regular_file() && IsImage(file.path())) {
      names.push_back(file.path().string().substr(root.size()));
    }
  }
  std::ranges::sort(names);
  return names;
}

ClassFolders FindClasses(const std::string& root) {
  ClassFolders found;
  for (const auto& folder : fs::directory_iterator(root)) {
    const std::string name = folder.path().filename().string();
    if (folder.is_directory() && !name.starts_with('.')) found.classes.push_back(name);
  }
  std::ranges::sort(found.classes);
  for (size_t label = 0; label < found.classes.size(); ++label) {
    for (std::string& name : ImagesBelow(root, found.classes[label])) {
      std::string path = root + name;
      found.entries.push_back({.name = std::move(name),
                               .path = std::move(path),
                               .place = "",
                               .label = static_cast<int>(label)});
    }
  }
  return found;
}

}  // namespace

std::string ImageEntry::Describe() const {
  return place.empty() ? StrCat("'", path, "'") : StrCat("'", path, "' (", place, ")");
}

std::vector<ImageEntry> ReadImageEntries(const std::string& list, const std::string& root_folder) {
  const std::string root = WithSlash(root_folder);
  if (list.ends_with(".csv")) return ReadCsv(list, root);
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
  ClassFolders found;
  try {
    found = FindClasses(WithSlash(root_folder));
  } catch (const fs::filesystem_error& failure) {
    Fail(ErrorCode::kIoFailure, StrCat("cannot list '", root_folder, "': ", failure.what()));
  }
  if (found.entries.empty()) {
    Fail(ErrorCode::kDataLoss,
         StrCat("'", root_folder, "' has no folders with images: make one folder for each class, ",
                "or give a list"));
  }
  return found;
}

}  // namespace crema::tools
