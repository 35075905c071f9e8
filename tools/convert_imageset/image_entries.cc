#include "convert_imageset/image_entries.h"

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
  const ImageList images(root_folder, "");
  ClassFolders found{.classes = images.classes(), .entries = {}};
  const size_t root = WithSlash(root_folder).size();
  for (const ImageList::Entry& image : images.entries()) {
    found.entries.push_back(
        {.name = image.path.substr(root), .path = image.path, .place = "", .label = image.label});
  }
  return found;
}

}  // namespace crema::tools
