#include "new/class_pictures.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <filesystem>
#include <map>
#include <string_view>
#include <utility>

#include "boxes/files_below.h"
#include "core/error.h"
#include "core/strings.h"
#include "data/lists/class_names.h"
#include "data/lists/csv_rows.h"
#include "data/lists/image_list.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

// Empty: the present one.
std::string FolderOf(const std::string& file) {
  return WithSlash(fs::path(file).parent_path().string());
}

bool NamesASet(const std::string& name) {
  constexpr std::array<std::string_view, 8> kSets = {"train", "training",   "val",  "valid",
                                                     "test",  "validation", "eval", "testing"};
  return std::ranges::find(kSets, name) != kSets.end();
}

void RefuseSets(const std::string& folder, const std::string& flag,
                const std::vector<std::string>& classes) {
  if (classes.size() < 2 || !std::ranges::all_of(classes, NamesASet)) return;
  std::string train = classes.front();
  for (const std::string& name : classes) {
    if (name.starts_with("train")) train = name;
  }
  const std::string& test = classes.front() == train ? classes.back() : classes.front();
  const fs::path path = folder;
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, ": '", folder, "' holds the sets ", Join(classes, " and "),
              ", not the classes: give --images=", (path / train).string(),
              " --test=", (path / test).string()));
}

bool IsNumber(std::string_view text, int* number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *number);
  return error == std::errc() && end == text.data() + text.size();
}

// Numbers in their order, else names in that of their bytes.
std::vector<std::string> SortedClasses(const std::vector<LabelledPicture>& pictures) {
  std::map<std::string, int> numbers;
  bool all_numbers = true;
  for (const LabelledPicture& picture : pictures) {
    int number = 0;
    all_numbers = IsNumber(picture.label, &number) && all_numbers;
    numbers.emplace(picture.label, number);
  }
  std::vector<std::string> classes;
  for (const auto& [name, number] : numbers) classes.push_back(name);
  if (all_numbers) {
    std::ranges::stable_sort(classes, {}, [&](const std::string& name) { return numbers[name]; });
  }
  return classes;
}

}  // namespace

PictureSet ReadClassFolders(const std::string& folder, const std::string& flag) {
  RefuseSets(folder, flag, ClassFoldersIn(folder));
  const ImageList list(folder, "");
  PictureSet set{.layout = "class folders", .root = WithSlash(folder), .classes = list.classes()};
  for (const ImageList::Entry& image : list.entries()) {
    set.pictures.push_back({.name = image.path.substr(set.root.size()),
                            .label = set.classes[static_cast<size_t>(image.label)]});
  }
  return set;
}

PictureSet ReadCsvPictures(const std::string& file) {
  PictureSet set{.layout = "a CSV list", .root = FolderOf(file)};
  for (const CsvRow& row : ReadCsvRows(file)) {
    const std::string& name = row.fields.front();
    if (row.line == 1 && !LooksLikeImage(name)) continue;  // the heading
    const bool fits = row.fields.size() == 2 && !name.empty() && !row.fields.back().empty();
    if (!fits) {
      Fail(ErrorCode::kDataLoss,
           StrCat("'", Join(row.fields, ","), "' is not `path,class`: it has ", row.fields.size(),
                  row.fields.size() == 1 ? " field" : " fields"),
           {.file = file, .line = static_cast<int>(row.line), .column = 1});
    }
    set.pictures.push_back({.name = name, .label = row.fields.back()});
  }
  if (set.pictures.empty()) Fail(ErrorCode::kDataLoss, "lists no images", {.file = file});
  set.classes = SortedClasses(set.pictures);
  return set;
}

PictureSet ReadListedPictures(const std::string& file) {
  PictureSet set{.layout = "a list", .root = FolderOf(file)};
  const ImageList list(file, set.root);
  const std::vector<std::string> names = ClassNamesIn(fs::path(file).parent_path().string());
  for (const ImageList::Entry& image : list.entries()) {
    const bool named = image.label >= 0 && static_cast<size_t>(image.label) < names.size();
    if (!named && !names.empty()) {
      Fail(ErrorCode::kDataLoss,
           StrCat("the label ", image.label, " has no name: ", kClassNamesFile, " has ",
                  names.size(), " names, for 0 to ", names.size() - 1),
           {.file = file, .line = static_cast<int>(image.line), .column = 1});
    }
    set.pictures.push_back(
        {.name = image.path.substr(set.root.size()),
         .label = named ? names[static_cast<size_t>(image.label)] : std::to_string(image.label)});
  }
  set.classes = names.empty() ? SortedClasses(set.pictures) : names;
  return set;
}

}  // namespace crema::tools
