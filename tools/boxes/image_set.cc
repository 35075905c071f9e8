#include "boxes/image_set.h"

#include <filesystem>
#include <string_view>

#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "format/data_file.h"
#include "format/file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// Suggests a year's folder if the one above it was given.
std::string YearsIn(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end;
       Advance(entry, error)) {
    if (IsFolder(entry->path() / "Annotations")) {
      return StrCat(" (did you mean '", entry->path().string(), "'?)");
    }
  }
  return "";
}

void CheckFolder(const std::string& folder) {
  if (!IsFolder(folder)) {
    Fail(ErrorCode::kNotFound, StrCat("there is no folder '", folder, "'", DidYouMeanPath(folder)));
  }
  if (IsFolder(fs::path(folder) / "Annotations")) return;
  Fail(ErrorCode::kNotFound,
       StrCat("'", folder, "' is not laid out like VOC2007: it has no folder Annotations",
              YearsIn(folder)));
}

// Returns "VOC2007" for any form of the path.
std::string YearOf(const std::string& folder) {
  std::error_code ignored;
  fs::path whole = fs::weakly_canonical(folder, ignored);
  if (!whole.has_filename()) whole = whole.parent_path();
  return whole.filename().string();
}

std::string ImageFile(const std::string& folder, const std::string& name) {
  std::error_code ignored;
  for (const char* extension : {".jpg", ".JPG", ".jpeg", ".png", ".PNG", ".bmp"}) {
    const std::string file = StrCat("JPEGImages/", name, extension);
    if (fs::exists(fs::path(folder) / file, ignored)) return file;
  }
  return StrCat("JPEGImages/", name, ".jpg");  // a missing file is reported when it is read
}

// Returns the name in a line; empty if the line does not count.
std::string_view NameIn(std::string_view line) {
  line = Trim(line);
  const size_t blank = line.find_last_of(" \t");
  if (blank == std::string_view::npos) return line;
  const std::string_view number = line.substr(blank + 1);
  if (number == "-1") return {};
  return number == "0" || number == "1" ? Trim(line.substr(0, blank)) : line;
}

}  // namespace

std::vector<VocEntry> ReadImageSet(const std::string& folder, const std::string& set) {
  CheckFolder(folder);
  const std::string list = (fs::path(folder) / "ImageSets/Main" / (set + ".txt")).string();
  const std::string year = YearOf(folder);
  std::vector<VocEntry> entries;
  int line = 0;
  for (const std::string& text : Split(ReadDataFile(list), '\n')) {
    ++line;
    const std::string name(NameIn(text));
    if (name.empty()) continue;
    const std::string file = ImageFile(folder, name);
    entries.push_back({.name = StrCat(year, "/", file),
                       .image = (fs::path(folder) / file).string(),
                       .annotation = (fs::path(folder) / "Annotations" / (name + ".xml")).string(),
                       .place = StrCat("line ", line, " of '", list, "'")});
  }
  if (entries.empty()) Fail(ErrorCode::kDataLoss, "names no images", {.file = list});
  return entries;
}

}  // namespace crema::tools
