#include "boxes/box_pictures.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <string_view>
#include <system_error>
#include <utility>

#include "boxes/annotation.h"
#include "boxes/coco.h"
#include "boxes/files_below.h"
#include "boxes/image_set.h"
#include "boxes/yaml_fields.h"
#include "boxes/yolo.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "data/lists/image_list.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

namespace fs = std::filesystem;

bool IsFolder(const fs::path& path) {
  std::error_code ignored;
  return fs::is_directory(path, ignored);
}

bool IsFile(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

std::vector<std::string> ClassesIn(const std::vector<LabelledPicture>& pictures) {
  std::set<std::string> names;
  for (const LabelledPicture& picture : pictures) {
    for (const BoxObject& object : picture.boxes.objects) names.insert(object.name);
  }
  return {names.begin(), names.end()};
}

// Annotations and pictures of an image set of VOC.
PictureSet ReadVocSet(const std::string& folder, const std::string& name) {
  PictureSet set{.root = WithSlash(folder)};
  for (const VocEntry& entry : ReadImageSet(folder, name)) {
    EndIfInterrupted();
    LabelledPicture picture{.name = entry.image.substr(set.root.size())};
    picture.boxes = ReadVocAnnotation(entry.annotation);
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

// Every annotation, with the picture of its name.
PictureSet ReadVocFolder(const std::string& folder) {
  PictureSet set{.root = WithSlash(folder)};
  const bool flat = !IsFolder(set.root + "Annotations");
  const std::string annotations = flat ? set.root : set.root + "Annotations/";
  std::string images = set.root;
  for (const char* name : {"JPEGImages/", "images/"}) {
    if (!flat && IsFolder(set.root + name)) images = set.root + name;
  }
  const std::map<std::string, std::string> by_stem = ImagesByStem(images);
  for (const std::string& file : FilesBelow(annotations, ".xml")) {
    EndIfInterrupted();
    const std::string stem = WithoutExtension(file);
    const auto image = by_stem.find(stem);
    if (image == by_stem.end()) {
      Fail(ErrorCode::kDataLoss,
           StrCat("has no picture '", images, stem,
                  ".jpg' (or .png and so "
                  "on)"),
           {.file = annotations + file});
    }
    LabelledPicture picture{.name = (images + image->second).substr(set.root.size())};
    picture.boxes = ReadVocAnnotation(annotations + file);
    set.pictures.push_back(std::move(picture));
  }
  return set;
}

// YOLO keeps pictures to train and to test on in folders below images/.
void WarnOfSeveralSets(const std::string& images) {
  std::error_code error;
  std::vector<std::string> sets;
  for (const std::string& name : NamesIn(images, error)) {
    if (IsFolder(images + name)) sets.push_back(name);
  }
  if (sets.size() < 2) return;
  std::ranges::sort(sets);
  ToolLog().Write(Severity::kWarning, StrCat(images, ": takes the pictures of ", Join(sets, ", "),
                                             "; for one of them, give ", images, sets[0]));
}

// The folder in which the picture of a COCO file lies; empty: none.
std::string FolderOfCoco(const std::string& file, const std::string& picture) {
  const fs::path here = fs::absolute(file).parent_path();
  std::vector<fs::path> places = {here, here.parent_path()};
  for (const fs::path& around : {here, here.parent_path()}) {
    std::error_code error;
    std::vector<std::string> names = NamesIn(around.string(), error);
    std::ranges::sort(names);
    for (const std::string& name : names) {
      if (IsFolder(around / name)) places.push_back(around / name);
    }
  }
  for (const fs::path& place : places) {
    if (!IsFile(place / picture)) continue;
    std::error_code error;
    const fs::path relative = fs::relative(place, fs::current_path(error), error);
    const bool below = !error && !relative.empty() && !relative.string().starts_with("..");
    return WithSlash(!fs::path(file).is_absolute() && below ? relative.string() : place.string());
  }
  return "";
}

// The file of labels of a picture, beside it if it is not below a folder images/.
std::string LabelsOf(const std::string& picture) {
  constexpr std::string_view kImages = "/images/";
  const std::string beside = WithoutExtension(picture) + ".txt";
  const std::string path = fs::absolute(beside).lexically_normal().string();
  const size_t at = path.rfind(kImages);
  if (at == std::string::npos) return beside;
  return path.substr(0, at) + "/labels/" + path.substr(at + kImages.size());
}

void ReadLabels(const YoloClasses& classes, PictureSet* set) {
  size_t labelled = 0;
  for (LabelledPicture& picture : set->pictures) {
    EndIfInterrupted();
    const std::string path = set->PathOf(picture);
    std::string text = LabelsOf(path);
    if (!IsFile(text)) text = WithoutExtension(path) + ".txt";
    if (IsFile(text)) {
      picture.boxes = ReadYoloLabels(text, classes);
      ++labelled;
    } else {
      picture.boxes.width = picture.boxes.height = 1;
    }
  }
  if (labelled > 0) return;
  Fail(ErrorCode::kDataLoss,
       StrCat("no picture in '", set->root, "' has a file of labels",
              set->pictures.empty()
                  ? ""
                  : StrCat(": looked for '", LabelsOf(set->PathOf(set->pictures[0])), "'")));
}

using YamlFields = std::map<std::string, YamlField>;

bool HasValue(const YamlFields& fields, const std::string& key) {
  const auto field = fields.find(key);
  return field != fields.end() && !field->second.items.empty() &&
         !field->second.items[0].value.empty();
}

// The folder that the sets of a data.yaml are relative to.
fs::path RootOfSets(const std::string& file, const YamlFields& fields) {
  const fs::path beside = fs::path(file).parent_path();
  if (!HasValue(fields, "path")) return beside;
  const YamlField& field = fields.at("path");
  const fs::path path = field.items[0].value;
  for (const fs::path& place : {path, beside / path}) {
    if (IsFolder(place)) return place;
  }
  FailLine(file, field.line,
           StrCat("path: there is no folder '", path.string(), "', from here or from this file"));
}

// A folder or list of a set, which may begin with ../ though the folder above is not meant.
std::string PlaceOfSet(const std::string& file, int line, const fs::path& root,
                       const std::string& name) {
  std::vector<fs::path> places = {root / name};
  if (name.starts_with("../")) places.push_back(root / name.substr(3));
  for (const fs::path& place : places) {
    std::error_code ignored;
    if (IsFolder(place)) return fs::canonical(place).string();
    if (fs::exists(place, ignored)) return place.lexically_normal().string();
  }
  FailLine(file, line,
           StrCat("there is no folder of pictures, or list of their names, '",
                  places[0].lexically_normal().string(), "'"));
}

// Pictures of a folder, or in the lines of a text file.
void AddPictures(const std::string& place, std::vector<LabelledPicture>* pictures) {
  if (IsFolder(place)) {
    const std::string root = WithSlash(place);
    for (const std::string& name : ImagesBelow(root)) pictures->push_back({.name = root + name});
    return;
  }
  const std::string text = ReadDataFile(place);
  int line = 0;
  for (const std::string& whole : Split(WithoutByteOrderMark(text), '\n')) {
    ++line;
    const fs::path name = std::string(Trim(whole));
    if (!LooksLikeImage(name.string())) continue;
    const bool here = !name.string().starts_with("./") && IsFile(name);
    const fs::path picture = here ? name : fs::path(place).parent_path() / name;
    if (!IsFile(picture)) {
      FailLine(place, line, StrCat("there is no picture '", picture.string(), "'"));
    }
    pictures->push_back({.name = fs::canonical(picture).string()});
  }
}

// Moves the folder that all pictures are in from their names to the root.
void FindRoot(PictureSet* set) {
  const auto above = [](const std::string& path) {
    return path.size() < 2 ? "" : path.substr(0, path.rfind('/', path.size() - 2) + 1);
  };
  set->root = above(set->pictures[0].name);
  for (const LabelledPicture& picture : set->pictures) {
    while (!picture.name.starts_with(set->root)) set->root = above(set->root);
  }
  for (LabelledPicture& picture : set->pictures) picture.name.erase(0, set->root.size());
}

}  // namespace

PictureSet ReadVocPictures(const std::string& folder, const std::string& set) {
  const bool listed = IsFile(fs::path(folder) / "ImageSets/Main" / (set + ".txt"));
  PictureSet pictures = listed ? ReadVocSet(folder, set) : ReadVocFolder(folder);
  pictures.layout = "VOC annotations";
  pictures.classes = ClassesIn(pictures.pictures);
  return pictures;
}

PictureSet ReadCocoPictures(const std::string& file) {
  CocoSet coco = ReadCoco(file);
  PictureSet set{.layout = "COCO annotations", .classes = coco.classes};
  for (const CocoSet::Picture& picture : coco.pictures) {  // the first may be missing
    set.root = FolderOfCoco(file, picture.file_name);
    if (!set.root.empty()) break;
  }
  if (set.root.empty()) {
    Fail(ErrorCode::kNotFound,
         StrCat("its picture '", coco.pictures.front().file_name,
                "' is not in the folder of the file, in one beside it, or in one above"),
         {.file = file});
  }
  for (CocoSet::Picture& picture : coco.pictures) {
    set.pictures.push_back(
        {.name = std::move(picture.file_name), .boxes = std::move(picture.boxes)});
  }
  return set;
}

PictureSet ReadYoloPictures(const std::string& folder, const std::string& names) {
  const YoloClasses classes = ReadYoloClasses(names);
  PictureSet set{.layout = "YOLO labels", .classes = classes.names};
  const std::string root = WithSlash(folder);
  const bool separate = IsFolder(root + "images") && IsFolder(root + "labels");
  set.root = separate ? root + "images/" : root;
  if (separate) WarnOfSeveralSets(set.root);
  for (std::string& file : ImagesBelow(set.root)) set.pictures.push_back({.name = std::move(file)});
  ReadLabels(classes, &set);
  return set;
}

PictureSet ReadYoloData(const std::string& file, const std::vector<std::string>& fields) {
  const YamlFields all = ReadYamlFields(file);
  const YoloClasses classes = ReadYoloClasses(file);
  const auto wanted =
      std::ranges::find_if(fields, [&](const std::string& key) { return HasValue(all, key); });
  if (wanted == fields.end()) {
    Fail(ErrorCode::kDataLoss,
         StrCat("does not say where the pictures are: it has no `", Join(fields, ":` or `"),
                ":`; or give their folder in place of this file"),
         {.file = file});
  }
  const YamlField& field = all.at(*wanted);
  const fs::path root = RootOfSets(file, all);
  PictureSet set{.layout = "YOLO labels", .classes = classes.names};
  for (const YamlItem& item : field.items) {
    AddPictures(PlaceOfSet(file, field.line, root, item.value), &set.pictures);
  }
  if (set.pictures.empty()) FailLine(file, field.line, StrCat(*wanted, ": has no pictures"));
  FindRoot(&set);
  if (HasValue(all, "val") || HasValue(all, "test")) set.tests = file;
  ReadLabels(classes, &set);
  return set;
}

std::string FindYoloData(const std::string& folder) {
  for (const char* name : {"data.yaml", "dataset.yaml"}) {
    const std::string file = WithSlash(folder) + name;
    if (!IsFile(file)) continue;
    try {
      if (HasValue(ReadYamlFields(file), "train")) return file;
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kDataLoss) throw;  // it is of something else
    }
  }
  return "";
}

std::string FindYoloNames(const std::string& folder) {
  fs::path place = fs::absolute(folder).lexically_normal();
  if (!place.has_filename()) place = place.parent_path();
  for (int level = 0; level < 3; ++level) {
    for (const char* name : {"data.yaml", "dataset.yaml", "classes.txt", "obj.names"}) {
      if (IsFile(place / name)) return (place / name).string();
    }
    place = place.parent_path();
  }
  return "";
}

}  // namespace crema::tools
