#include "check_data/set_summary.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string_view>

#include "common/ordered_work.h"
#include "common/progress_line.h"
#include "core/error.h"
#include "core/rng.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "data/records/annotated_datum.h"

namespace crema::tools {
namespace {

Colors ColorsOf(const PixelView& image) {
  if (image.channels == 1) return Colors::kGray;
  if (image.channels == 4) return Colors::kAlpha;
  if (image.channels != 3) return Colors::kOther;
  if (image.bytes == nullptr) return Colors::kColor;
  const size_t plane = static_cast<size_t>(image.height) * static_cast<size_t>(image.width);
  const bool equal = std::memcmp(image.bytes, image.bytes + plane, plane) == 0 &&
                     std::memcmp(image.bytes, image.bytes + 2 * plane, plane) == 0;
  return equal ? Colors::kGrayInColor : Colors::kColor;
}

uint64_t HashOf(const PixelView& image) {
  const auto count = static_cast<size_t>(image.shape().count());
  const bool bytes = image.bytes != nullptr;
  const std::string_view content(bytes ? reinterpret_cast<const char*>(image.bytes)
                                       : reinterpret_cast<const char*>(image.floats),
                                 bytes ? count : count * sizeof(float));
  const auto size = static_cast<uint64_t>(image.height) << 32 | static_cast<uint32_t>(image.width);
  return MixBits(HashName(content), MixBits(size, bytes ? 1 : 0));
}

// Also reports boxes that a net would accept but that are probably wrong.
std::string FaultOf(const NormalizedBBox& box) {
  constexpr float kRounding = 1e-4F;
  if (std::string fault = FindBoxFault(box); !fault.empty()) return fault;
  if (box.xmax() == box.xmin() || box.ymax() == box.ymin()) return "has no area";
  const bool inside = box.xmin() >= -kRounding && box.ymin() >= -kRounding &&
                      box.xmax() <= 1 + kRounding && box.ymax() <= 1 + kRounding;
  return inside ? "" : "is partly outside the image";
}

void ExamineBoxes(const std::string& value, RecordFacts* facts) {
  AnnotatedDatum datum;
  if (!datum.ParseFromString(value)) return;  // reported already
  for (const AnnotationGroup& group : datum.annotation_group()) {
    for (const Annotation& annotation : group.annotation()) {
      const NormalizedBBox& box = annotation.bbox();
      facts->box_labels.push_back(group.group_label());
      const std::string fault = FaultOf(box);
      if (fault.empty()) continue;
      facts->bad_boxes.push_back(StrCat(facts->name, ": the box ", box.xmin(), " ", box.ymin(), " ",
                                        box.xmax(), " ", box.ymax(), " of label ",
                                        group.group_label(), " ", fault));
    }
  }
}

bool IsEncoded(const std::string& value, bool annotated) {
  Datum datum;
  AnnotatedDatum with_boxes;
  if (annotated) return with_boxes.ParseFromString(value) && with_boxes.datum().encoded();
  return datum.ParseFromString(value) && datum.encoded();
}

}  // namespace

RecordFacts ExamineRecord(const OwnedRecord& record, const std::string& path) {
  RecordFacts facts;
  facts.name = PrintableKey(record.key);
  facts.annotated = LooksAnnotated(record.value);
  RecordPixels reader(path);
  try {
    const PixelView image = reader.Read(record.key, record.value);
    facts.size = {image.channels, image.height, image.width};
    facts.colors = ColorsOf(image);
    facts.content = {.hash = HashOf(image), .ordinal = record.ordinal, .label = reader.label()};
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kDataLoss) throw;  // a build without OpenCV
    facts.fault = error.problems().front().message;
    return facts;
  }
  facts.encoded = IsEncoded(record.value, facts.annotated);
  if (facts.annotated) ExamineBoxes(record.value, &facts);
  return facts;
}

void SetSummary::Add(const RecordFacts& facts) {
  ++records;
  if (!facts.fault.empty()) {
    broken.Add(facts.fault);
    return;
  }
  encoded += facts.encoded ? 1 : 0;
  annotated += facts.annotated ? 1 : 0;
  if (facts.colors == Colors::kGray) gray.Add(facts.name);
  if (facts.colors == Colors::kGrayInColor) gray_in_color.Add(facts.name);
  if (facts.colors == Colors::kAlpha) alpha.Add(facts.name);
  ++sizes[facts.size];
  contents.push_back(facts.content);
  if (facts.annotated) {
    boxes += facts.box_labels.size();
    for (const int label : facts.box_labels) ++labels[label];
    for (const std::string& box : facts.bad_boxes) bad_boxes.Add(box);
    if (facts.box_labels.empty()) without_boxes.Add(facts.name);
  } else {
    ++labels[facts.content.label];
    if (facts.content.label < 0) {
      negative_labels.Add(StrCat(facts.name, ": ", facts.content.label));
    }
  }
}

SetSummary SummarizeSet(const std::string& path, int threads) {
  RecordPass pass(path);
  ProgressLine progress({.unit = "records", .total = pass.count()});
  SetSummary summary;
  summary.path = path;
  RunInOrder(
      threads, [&] { return pass.Next(); },
      [&](const OwnedRecord& record) { return ExamineRecord(record, path); },
      [&](const RecordFacts& facts) {
        summary.Add(facts);
        progress.Add();
      });
  std::ranges::sort(summary.contents, {},
                    [](const ImageContent& image) { return std::pair(image.hash, image.ordinal); });
  return summary;
}

}  // namespace crema::tools
