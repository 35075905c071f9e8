#include "new/pictures.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <map>
#include <system_error>
#include <utility>

#include "boxes/box_pictures.h"
#include "boxes/files_below.h"
#include "boxes/yolo.h"
#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "data/lists/image_list.h"
#include "format/file.h"
#include "new/class_pictures.h"
#include "new/mask_pictures.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

constexpr const char* kExpected =
    "expected one of\n"
    "  classify: a folder for each class, with its images; a .csv file with `path,class` lines\n"
    "  detect: Annotations/*.xml and JPEGImages/ (PASCAL VOC); a .json of COCO and its images; "
    "images/, "
    "labels/*.txt and data.yaml or classes.txt (YOLO)\n"
    "  segment: images/ and masks/ (or labels/) with a label map for each, a PNG of the same name";

// What lies directly in a folder.
struct Contents {
  std::vector<std::string> folders;  // names, sorted
  std::map<std::string, int> files;  // number by extension, in lower case
  std::vector<std::string> lists;    // .csv files
  std::vector<std::string> jsons;    // .json files
  int images = 0;
};

std::string ExtensionOf(const fs::path& path) {
  std::string extension = path.extension().string();
  std::ranges::transform(extension, extension.begin(), [](unsigned char c) { return tolower(c); });
  return extension.empty() ? "(none)" : extension;
}

Contents LookInto(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names = NamesIn(folder, error);
  if (error) {
    Fail(ErrorCode::kIoFailure, StrCat("cannot list '", folder, "': ", error.message()));
  }
  std::ranges::sort(names);
  Contents contents;
  for (const std::string& name : names) {
    if (name.starts_with('.')) continue;
    const fs::path path = fs::path(folder) / name;
    std::error_code ignored;
    if (fs::is_directory(path, ignored)) {
      contents.folders.push_back(name);
      continue;
    }
    ++contents.files[ExtensionOf(path)];
    if (LooksLikeImage(name)) ++contents.images;
    if (ExtensionOf(path) == ".csv") contents.lists.push_back(path.string());
    if (ExtensionOf(path) == ".json") contents.jsons.push_back(path.string());
  }
  return contents;
}

std::string Describe(const Contents& contents) {
  constexpr size_t kNamed = 6;
  std::vector<std::string> parts;
  if (!contents.folders.empty()) {
    std::vector<std::string> named = contents.folders;
    named.resize(std::min(kNamed, named.size()));
    parts.push_back(
        StrCat(contents.folders.size(), contents.folders.size() == 1 ? " folder (" : " folders (",
               Join(named, ", "), named.size() < contents.folders.size() ? ", ...)" : ")"));
  }
  for (const auto& [extension, count] : contents.files) {
    parts.push_back(StrCat(count, " ", extension));
  }
  return parts.empty() ? "nothing" : Join(parts, ", ");
}

// One way in which pictures and labels lie on disk.
struct Layout {
  PictureTask task;
  std::function<PictureSet()> read;
};

bool IsFolder(const std::string& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

// The fields of YOLO's data.yaml for the pictures of a flag.
std::vector<std::string> FieldsFor(const std::string& flag) {
  if (flag == "images") return {"train"};
  return {"val", "test"};
}

std::vector<Layout> LayoutsOfFile(const std::string& path, const std::string& flag) {
  const std::string extension = ExtensionOf(path);
  if (extension == ".csv") return {{PictureTask::kClassify, [=] { return ReadCsvPictures(path); }}};
  if (extension == ".txt")
    return {{PictureTask::kClassify, [=] { return ReadListedPictures(path); }}};
  if (extension == ".json") return {{PictureTask::kDetect, [=] { return ReadCocoPictures(path); }}};
  if (IsYaml(path)) {
    return {{PictureTask::kDetect, [=] { return ReadYoloData(path, FieldsFor(flag)); }}};
  }
  return {};
}

// The layouts for detect.
void AddBoxLayouts(const std::string& folder, const std::string& flag, const Contents& contents,
                   std::vector<Layout>* found) {
  const auto add = [&](std::function<PictureSet()> read) {
    found->push_back({PictureTask::kDetect, std::move(read)});
  };
  const std::string root = WithSlash(folder);
  if (IsFolder(root + "Annotations") || (contents.images > 0 && contents.files.contains(".xml"))) {
    add([=] { return ReadVocPictures(folder, flag == "images" ? "trainval" : "test"); });
  }
  std::vector<std::string> coco = contents.jsons;
  if (IsFolder(root + "annotations")) coco = LookInto(root + "annotations").jsons;
  if (coco.size() == 1) add([=] { return ReadCocoPictures(coco.front()); });
  const std::string data = FindYoloData(folder);
  if (!data.empty()) add([=] { return ReadYoloData(data, FieldsFor(flag)); });
  const std::string names = FindYoloNames(folder);
  const bool separate = IsFolder(root + "images") && IsFolder(root + "labels") &&
                        !FilesBelow(root + "labels", ".txt").empty();
  const bool beside = contents.images > 0 && contents.folders.empty();
  if (!names.empty() && (separate || beside)) add([=] { return ReadYoloPictures(folder, names); });
}

// The layouts for segment.
void AddMaskLayouts(const std::string& folder, std::vector<Layout>* found) {
  for (const char* images : {"images", "JPEGImages"}) {
    for (const char* masks : {"masks", "labels", "SegmentationClass"}) {
      const std::string left = WithSlash(folder) + images;
      const std::string right = WithSlash(folder) + masks;
      if (!IsFolder(left) || !IsFolder(right) || ImagesBelow(right).empty()) continue;
      found->push_back({PictureTask::kSegment, [=] { return ReadMaskPictures(left, right); }});
    }
  }
}

std::vector<Layout> LayoutsOfFolder(const std::string& folder, const std::string& flag,
                                    const Contents& contents) {
  std::vector<Layout> found;
  AddBoxLayouts(folder, flag, contents, &found);
  AddMaskLayouts(folder, &found);
  if (!found.empty()) return found;
  if (contents.lists.size() == 1) {
    const std::string list = contents.lists.front();
    return {{PictureTask::kClassify, [=] { return ReadCsvPictures(list); }}};
  }
  if (contents.folders.empty()) return {};
  return {{PictureTask::kClassify, [=] { return ReadClassFolders(folder, flag); }}};
}

// Labels are found by the names of their classes.
void RefuseEqualNames(const PictureSet& set, const std::string& path, const std::string& flag) {
  std::map<std::string, size_t> labels;
  for (size_t label = 0; label < set.classes.size(); ++label) {
    const auto [other, added] = labels.emplace(set.classes[label], label);
    if (added) continue;
    Fail(ErrorCode::kDataLoss,
         StrCat("--", flag, ": two classes of '", path, "' have the name '", other->first, "', ",
                other->second, " and ", label, ": rename one"));
  }
}

}  // namespace

const char* NameOf(PictureTask task) {
  constexpr std::array<const char*, 3> kNames = {"classify", "detect", "segment"};
  return kNames[static_cast<size_t>(task)];
}

PictureSet ReadPictures(const std::string& path, const std::string& flag,
                        const std::optional<PictureTask>& task) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) {
    Fail(ErrorCode::kNotFound,
         StrCat("--", flag, ": there is no folder or file '", path, "'", DidYouMeanPath(path)));
  }
  const bool is_folder = fs::is_directory(path, ignored);
  const Contents contents = is_folder ? LookInto(path) : Contents{};
  const std::vector<Layout> layouts =
      is_folder ? LayoutsOfFolder(path, flag, contents) : LayoutsOfFile(path, flag);
  for (const Layout& layout : layouts) {
    if (task && layout.task != *task) continue;
    PictureSet set = layout.read();
    set.task = layout.task;
    RefuseEqualNames(set, path, flag);
    return set;
  }
  Fail(ErrorCode::kInvalidArgument,
       StrCat("--", flag, ": '", path, "' holds no labelled pictures",
              task ? StrCat(" for ", NameOf(*task)) : "", " in a layout that is known; found ",
              is_folder ? Describe(contents) : "a file " + ExtensionOf(path), ", ", kExpected));
}

}  // namespace crema::tools
