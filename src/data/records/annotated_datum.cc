#include "data/records/annotated_datum.h"

#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/wire_format_lite.h>

#include <climits>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "format/data_file.h"

namespace crema {
namespace {

std::string BoxText(const NormalizedBBox& box) {
  return StrCat(box.xmin(), " ", box.ymin(), " ", box.xmax(), " ", box.ymax());
}

AnnotatedBox ToObject(const Annotation& annotation, int label) {
  const NormalizedBBox& box = annotation.bbox();
  return {.box = {.xmin = static_cast<double>(box.xmin()),
                  .ymin = static_cast<double>(box.ymin()),
                  .xmax = static_cast<double>(box.xmax()),
                  .ymax = static_cast<double>(box.ymax())},
          .label = label,
          .instance = annotation.instance_id(),
          .difficult = box.difficult()};
}

}  // namespace

std::string FindBoxFault(const NormalizedBBox& box) {
  for (const float corner : {box.xmin(), box.ymin(), box.xmax(), box.ymax()}) {
    if (!std::isfinite(corner)) return "has a corner that is not a number";
  }
  if (box.xmax() < box.xmin() || box.ymax() < box.ymin()) return "is turned inside out";
  if (box.xmax() < 0 || box.ymax() < 0 || box.xmin() > 1 || box.ymin() > 1) {
    return "is outside the image (boxes are in units of the image, 0 to 1)";
  }
  return "";
}

PixelView AnnotatedDatumReader::Read(std::string_view key, std::string_view value) {
  if (value.size() > INT_MAX ||
      !datum_.ParseFromArray(value.data(), static_cast<int>(value.size()))) {
    Fail(ErrorCode::kDataLoss, StrCat(RecordName(data_set_, key), " is not an AnnotatedDatum (",
                                      value.size(), " bytes)"));
  }
  if (!datum_.has_datum()) {
    Fail(ErrorCode::kDataLoss,
         StrCat(RecordName(data_set_, key),
                " is not an AnnotatedDatum: it holds no image. If it is a plain Datum, read this "
                "data set with a layer of type Data"));
  }
  TakeObjects(key);
  return reader_.Take(key, datum_.mutable_datum());
}

void AnnotatedDatumReader::TakeObjects(std::string_view key) {
  objects_.clear();
  for (const AnnotationGroup& group : datum_.annotation_group()) {
    for (const Annotation& annotation : group.annotation()) {
      const std::string fault = FindBoxFault(annotation.bbox());
      if (!fault.empty()) {
        Fail(ErrorCode::kDataLoss,
             StrCat(RecordName(data_set_, key), ": the box ", BoxText(annotation.bbox()),
                    " of label ", group.group_label(), " ", fault));
      }
      objects_.push_back(ToObject(annotation, group.group_label()));
    }
  }
}

uint64_t CountBoxes(std::string_view value) {
  using google::protobuf::internal::WireFormatLite;
  if (value.size() > INT_MAX) return 0;
  google::protobuf::io::CodedInputStream stream(reinterpret_cast<const uint8_t*>(value.data()),
                                                static_cast<int>(value.size()));
  constexpr uint32_t kGroup = WireFormatLite::MakeTag(AnnotatedDatum::kAnnotationGroupFieldNumber,
                                                      WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
  uint64_t boxes = 0;
  AnnotationGroup group;
  while (const uint32_t tag = stream.ReadTag()) {
    if (tag != kGroup) {
      if (!WireFormatLite::SkipField(&stream, tag)) return 0;
      continue;
    }
    uint32_t bytes = 0;
    std::string text;
    if (!stream.ReadVarint32(&bytes) || bytes > INT_MAX ||
        !stream.ReadString(&text, static_cast<int>(bytes)) || !group.ParseFromString(text)) {
      return 0;
    }
    boxes += static_cast<uint64_t>(group.annotation_size());
  }
  return boxes;
}

std::set<int> ReadLabels(const std::string& path) {
  const LabelMap map = ReadLabelMap(path);
  std::set<int> labels;
  for (const LabelMapItem& item : map.item()) labels.insert(item.label());
  if (labels.empty()) {
    Fail(ErrorCode::kInvalidArgument, "names no labels: write item { name: ... label: ... }",
         {.file = path});
  }
  return labels;
}

}  // namespace crema
