#include "boxes/coco.h"

#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "coco.pb.h"
#include "common/log.h"
#include "core/error.h"
#include "core/strings.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

CocoFile Parse(const std::string& file) {
  CocoFile coco;
  google::protobuf::util::JsonParseOptions options;
  options.ignore_unknown_fields = true;
  const std::string text = ReadDataFile(file);
  const auto status = google::protobuf::util::JsonStringToMessage(
      std::string(WithoutByteOrderMark(text)), &coco, options);
  if (!status.ok()) {
    Fail(ErrorCode::kDataLoss,
         StrCat("is no annotation file of COCO: ", std::string(status.message())), {.file = file});
  }
  if (coco.images_size() == 0 || coco.categories_size() == 0) {
    Fail(ErrorCode::kDataLoss,
         StrCat("is no annotation file of COCO: it has ", coco.images_size(), " images and ",
                coco.categories_size(), " categories"),
         {.file = file});
  }
  return coco;
}

// By rising id.
std::map<int64_t, std::string> CategoriesOf(const CocoFile& coco, const std::string& file) {
  std::map<int64_t, std::string> names;
  for (const CocoFile::Category& category : coco.categories()) {
    if (names.emplace(category.id(), category.name()).second && !category.name().empty()) continue;
    Fail(ErrorCode::kDataLoss, StrCat("category ", category.id(), " has no name, or comes twice"),
         {.file = file});
  }
  return names;
}

// `place` names the annotation, for messages.
BoxObject ObjectOf(const CocoFile::Annotation& annotation, const CocoSet::Picture& picture,
                   const std::string& place) {
  if (annotation.bbox_size() != 4) {
    Fail(ErrorCode::kDataLoss,
         StrCat(place, " has ", annotation.bbox_size(), " numbers in bbox, but a box has 4"));
  }
  const double left = annotation.bbox(0);
  const double top = annotation.bbox(1);
  const double width = picture.boxes.width;
  const double height = picture.boxes.height;
  BoxObject object{
      .xmin = std::clamp(left, 0.0, width),
      .ymin = std::clamp(top, 0.0, height),
      .xmax = std::clamp(left + annotation.bbox(2), 0.0, width),
      .ymax = std::clamp(top + annotation.bbox(3), 0.0, height),
      .difficult = annotation.iscrowd().number_value() != 0 || annotation.iscrowd().bool_value()};
  if (!(object.xmin < object.xmax && object.ymin < object.ymax)) {
    Fail(ErrorCode::kDataLoss,
         StrCat(place, ": the box ", left, " ", top, " ", annotation.bbox(2), " ",
                annotation.bbox(3), " (left, top, width, height) has no area in '",
                picture.file_name, "', which is ", width, "x", height));
  }
  return object;
}

// Returns true for a box of no width or height, as COCO has some.
bool IsEmpty(const CocoFile::Annotation& annotation) {
  return annotation.bbox_size() == 4 && (annotation.bbox(2) == 0 || annotation.bbox(3) == 0);
}

}  // namespace

CocoSet ReadCoco(const std::string& file) {
  const CocoFile coco = Parse(file);
  const std::map<int64_t, std::string> categories = CategoriesOf(coco, file);
  CocoSet set;
  for (const auto& [id, name] : categories) set.classes.push_back(name);
  std::map<int64_t, size_t> index;
  for (const CocoFile::Image& image : coco.images()) {
    constexpr int64_t kMost = 1'000'000;
    const bool sized = image.width() == std::clamp<int64_t>(image.width(), 1, kMost) &&
                       image.height() == std::clamp<int64_t>(image.height(), 1, kMost);
    if (!sized || image.file_name().empty() ||
        !index.emplace(image.id(), set.pictures.size()).second) {
      Fail(ErrorCode::kDataLoss,
           StrCat("image ", image.id(), " lacks file_name, width or height, or comes twice"),
           {.file = file});
    }
    CocoSet::Picture picture{.file_name = image.file_name()};
    picture.boxes.path = file;
    picture.boxes.width = static_cast<int>(image.width());
    picture.boxes.height = static_cast<int>(image.height());
    set.pictures.push_back(std::move(picture));
  }
  int empty = 0;
  std::string first;
  for (int i = 0; i < coco.annotations_size(); ++i) {
    const CocoFile::Annotation& annotation = coco.annotations(i);
    const std::string place = StrCat(file, ": annotation ", i);
    const auto image = index.find(annotation.image_id());
    const auto category = categories.find(annotation.category_id());
    if (image == index.end() || category == categories.end()) {
      Fail(ErrorCode::kDataLoss,
           StrCat(place, " is of image ", annotation.image_id(), " and category ",
                  annotation.category_id(), ", one of which the file does not have"));
    }
    CocoSet::Picture& picture = set.pictures[image->second];
    if (IsEmpty(annotation)) {
      if (empty++ == 0) first = StrCat("annotation ", i, " of '", picture.file_name, "'");
      continue;
    }
    BoxObject object = ObjectOf(annotation, picture, place);
    object.name = category->second;
    picture.boxes.objects.push_back(std::move(object));
  }
  if (empty > 0) {
    ToolLog().Write(Severity::kWarning,
                    StrCat(file, ": ", empty,
                           " boxes of no width or height are left out, the first ", "is ", first));
  }
  return set;
}

}  // namespace crema::tools
