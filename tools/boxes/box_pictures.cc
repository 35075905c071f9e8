#include "boxes/box_pictures.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <set>
#include <system_error>
#include <utility>

#include "boxes/annotation.h"
#include "boxes/coco.h"
#include "boxes/files_below.h"
#include "boxes/image_set.h"
#include "boxes/yolo.h"
#include "common/interrupt.h"
#include "common/log.h"
#include "core/error.h"
#include "core/folder.h"
#include "core/strings.h"
#include "data/lists/image_list.h"

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
  std::string labels = separate ? root + "labels/" : root;
  if (separate) WarnOfSeveralSets(set.root);
  const size_t images = root.rfind("/images/");
  if (!separate && images != std::string::npos) {
    const std::string beside =
        root.substr(0, images) + "/labels/" + root.substr(images + std::string("/images/").size());
    if (IsFolder(beside)) labels = beside;
  }
  size_t labelled = 0;
  for (const std::string& file : ImagesBelow(set.root)) {
    EndIfInterrupted();
    const std::string text = labels + WithoutExtension(file) + ".txt";
    LabelledPicture picture{.name = file};
    if (IsFile(text)) {
      picture.boxes = ReadYoloLabels(text, classes);
      ++labelled;
    } else {
      picture.boxes.width = picture.boxes.height = 1;
    }
    set.pictures.push_back(std::move(picture));
  }
  if (labelled == 0) {
    Fail(ErrorCode::kDataLoss, StrCat("no picture in '", set.root,
                                      "' has a file of labels: looked "
                                      "for '",
                                      labels, "NAME.txt'"));
  }
  return set;
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
