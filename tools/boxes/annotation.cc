#include "boxes/annotation.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>

#include "boxes/xml.h"
#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/annotated_datum.h"
#include "format/data_file.h"

namespace crema::tools {
namespace {

// `place` is an XmlElement or a BoxObject.
[[noreturn]] void FailAt(const std::string& path, const auto& place, const std::string& what) {
  Fail(ErrorCode::kDataLoss, what, {.file = path, .line = place.line, .column = place.column});
}

const XmlElement& ChildOf(const XmlElement& element, std::string_view name,
                          const std::string& path) {
  const XmlElement* child = element.Find(name);
  if (child == nullptr) {
    FailAt(path, element, StrCat("<", element.name, "> has no <", name, ">"));
  }
  return *child;
}

double NumberOf(const XmlElement& element, const std::string& path) {
  const std::string_view text = Trim(element.text);
  double number = 0;
  const char* last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, number);
  if (error != std::errc() || end != last || !std::isfinite(number)) {
    FailAt(path, element, StrCat("<", element.name, "> is '", text, "', not a number"));
  }
  return number;
}

// Returns 0 if it is missing.
int LengthOf(const XmlElement* size, std::string_view name, const std::string& path) {
  const XmlElement* length = size != nullptr ? size->Find(name) : nullptr;
  if (length == nullptr) return 0;
  constexpr double kMost = 1e6;
  const double pixels = NumberOf(*length, path);
  if (pixels < 0 || pixels > kMost || pixels != std::floor(pixels)) {
    FailAt(path, *length, StrCat("the image has the ", name, " ", Trim(length->text)));
  }
  return static_cast<int>(pixels);
}

BoxObject ReadObject(const XmlElement& element, const std::string& path) {
  BoxObject object;
  object.line = element.line;
  object.column = element.column;
  object.name = Trim(ChildOf(element, "name", path).text);
  const XmlElement& box = ChildOf(element, "bndbox", path);
  object.xmin = NumberOf(ChildOf(box, "xmin", path), path);
  object.ymin = NumberOf(ChildOf(box, "ymin", path), path);
  object.xmax = NumberOf(ChildOf(box, "xmax", path), path);
  object.ymax = NumberOf(ChildOf(box, "ymax", path), path);
  const XmlElement* difficult = element.Find("difficult");
  object.difficult = difficult != nullptr && Trim(difficult->text) == "1";
  return object;
}

int LabelOf(const BoxObject& object, const std::map<std::string, int>& labels,
            const std::string& path) {
  const auto found = labels.find(object.name);
  if (found != labels.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, label] : labels) names.push_back(name);
  Fail(ErrorCode::kInvalidArgument,
       StrCat("the label map has no class '", object.name, "'", DidYouMean(object.name, names),
              "; give another --labelmap, or --find_classes"),
       {.file = path, .line = object.line, .column = object.column});
}

Annotation* NewInstance(int label, AnnotatedDatum* record) {
  AnnotationGroup* group = nullptr;
  for (AnnotationGroup& one : *record->mutable_annotation_group()) {
    if (one.group_label() == label) group = &one;
  }
  if (group == nullptr) {
    group = record->add_annotation_group();
    group->set_group_label(label);
  }
  const int instance = group->annotation_size();
  Annotation* annotation = group->add_annotation();
  annotation->set_instance_id(instance);
  return annotation;
}

std::string Describe(const BoxObject& object) {
  return StrCat("the box ", object.xmin, " ", object.ymin, " ", object.xmax, " ", object.ymax,
                " of '", object.name, "'");
}

}  // namespace

BoxAnnotation ReadVocAnnotation(const std::string& path) {
  const XmlElement root = ParseXml(ReadDataFile(path), path);
  if (root.name != "annotation") {
    FailAt(path, root, StrCat("is not a VOC annotation: it begins with <", root.name, ">"));
  }
  BoxAnnotation annotation;
  annotation.path = path;
  const XmlElement* size = root.Find("size");
  annotation.width = LengthOf(size, "width", path);
  annotation.height = LengthOf(size, "height", path);
  for (const XmlElement& element : root.children) {
    if (element.name == "object") annotation.objects.push_back(ReadObject(element, path));
  }
  return annotation;
}

std::vector<std::string> AddBoxes(const BoxAnnotation& annotation,
                                  const std::map<std::string, int>& labels, const Shape& image,
                                  AnnotatedDatum* record) {
  std::vector<std::string> warnings;
  const bool sized = annotation.width > 0 && annotation.height > 0;
  const auto width = static_cast<double>(sized ? annotation.width : image[2]);
  const auto height = static_cast<double>(sized ? annotation.height : image[1]);
  if (!sized) {
    warnings.push_back(StrCat(annotation.path, ": does not say the size of the image; taken from ",
                              "the image, ", width, "x", height));
  }
  record->set_type(AnnotatedDatum::BBOX);
  for (const BoxObject& object : annotation.objects) {
    Annotation* instance = NewInstance(LabelOf(object, labels, annotation.path), record);
    NormalizedBBox* box = instance->mutable_bbox();
    box->set_xmin(static_cast<float>(object.xmin / width));
    box->set_ymin(static_cast<float>(object.ymin / height));
    box->set_xmax(static_cast<float>(object.xmax / width));
    box->set_ymax(static_cast<float>(object.ymax / height));
    box->set_difficult(object.difficult);
    const std::string fault = FindBoxFault(*box);
    if (!fault.empty()) {
      FailAt(annotation.path, object,
             StrCat(Describe(object), " ", fault, "; the image is ", width, "x", height));
    }
    if (object.xmin < 0 || object.ymin < 0 || object.xmax > width || object.ymax > height) {
      warnings.push_back(StrCat(annotation.path, ":", object.line, ": ", Describe(object),
                                " reaches outside of the image, which is ", width, "x", height));
    }
  }
  return warnings;
}

}  // namespace crema::tools
