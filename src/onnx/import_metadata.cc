#include "onnx/import_metadata.h"

#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>

#include <cmath>
#include <optional>

#include "core/strings.h"

namespace crema {
namespace {

using google::protobuf::ListValue;
using google::protobuf::Struct;
using google::protobuf::Value;

template <typename Message>
std::optional<Message> Parse(const std::string& json) {
  Message message;
  if (!google::protobuf::util::JsonStringToMessage(json, &message).ok()) return std::nullopt;
  return message;
}

std::optional<std::vector<std::string>> LabelsOf(const std::string& json) {
  const auto list = Parse<ListValue>(json);
  if (!list) return std::nullopt;
  std::vector<std::string> labels;
  for (const Value& value : list->values()) {
    if (value.kind_case() != Value::kStringValue) return std::nullopt;
    labels.push_back(value.string_value());
  }
  return labels;
}

std::optional<float> FloatOf(const Value& value) {
  const auto number = static_cast<float>(value.number_value());
  if (value.kind_case() != Value::kNumberValue || !std::isfinite(number)) return std::nullopt;
  return number;
}

// Returns false if the value has something else than numbers.
bool TakeFloats(const Value& list, std::vector<float>* numbers) {
  for (const Value& value : list.list_value().values()) {
    const std::optional<float> number = FloatOf(value);
    if (!number) return false;
    numbers->push_back(*number);
  }
  return true;
}

// Takes the size of images, which no graph computes. Returns false for values out of range.
template <typename Get>
bool TakeFit(const Get& get, Preprocessing* p) {
  try {
    if (const std::string fit = get("fit").string_value(); !fit.empty()) p->fit = ParseFit(fit);
    const std::string how = get("interpolation").string_value();
    if (!how.empty()) p->interpolation = ParseInterpolation(how);
  } catch (const Error&) {
    return false;
  }
  const auto side = [](const Value& value, int* to) {
    const double number = value.number_value();
    if (value.kind_case() == Value::KIND_NOT_SET) return true;
    if (!(number >= 0 && number <= kMaxResizedSide)) return false;
    *to = static_cast<int>(number);
    return true;
  };
  const Value size = get("resize");
  const bool by_size = size.list_value().values_size() == 2;
  if (by_size && !(side(size.list_value().values(0), &p->resize_height) &&
                   side(size.list_value().values(1), &p->resize_width))) {
    return false;
  }
  p->ten_crops = get("ten_crops").bool_value();
  return side(get("short_side"), &p->short_side) && side(get("pad"), &p->pad);
}

// Returns what is to be done outside of the graph.
std::optional<Preprocessing> PreprocessingOf(const std::string& json) {
  const auto object = Parse<Struct>(json);
  if (!object) return std::nullopt;
  const auto get = [&](const char* name) {
    const auto found = object->fields().find(name);
    return found == object->fields().end() ? Value() : found->second;
  };
  Preprocessing p;
  p.rgb = get("channels").string_value() == "rgb";
  if (!TakeFit(get, &p)) return std::nullopt;
  if (get("in_graph").bool_value()) return p;
  const std::optional<float> scale = FloatOf(get("scale"));
  const Value means = get("mean");
  if (!scale || means.kind_case() != Value::kListValue) return std::nullopt;
  p.scale = *scale;
  p.invert = get("invert").bool_value();
  if (!TakeFloats(means, &p.mean) || !TakeFloats(get("std"), &p.deviation)) return std::nullopt;
  if (get("range").kind_case() != Value::KIND_NOT_SET) {
    const std::optional<float> range = FloatOf(get("range"));
    if (!range) return std::nullopt;
    p.range = *range;
  }
  return p;
}

std::optional<double> OverlapOf(const std::string& text) {
  const auto number = Parse<Value>(text);
  const bool fits = number && number->number_value() >= 0 && number->number_value() <= 1;
  return fits ? std::optional(number->number_value()) : std::nullopt;
}

}  // namespace

ModelCard ReadMetadata(const onnx::ModelProto& model, std::vector<std::string>* notes) {
  ModelCard card;
  if (model.producer_name() != "crema") return card;
  const auto take = [&](const std::string& key, const auto& value, auto* to) {
    if (value) *to = *value;
    if (value) return;
    notes->push_back(StrCat("the metadata '", key,
                            "' is not used: it is not what Crema writes, or names a mean image, "
                            "which the file does not have; give the ",
                            key, " by flags"));
  };
  for (const onnx::StringStringEntryProto& entry : model.metadata_props()) {
    const std::string& text = entry.value();
    const bool task = text == "classify" || text == "detect" || text == "segment";
    if (entry.key() == "task" && task) card.task = text;
    if (entry.key() == "head") card.head = text;
    if (entry.key() == "head_overlap") take("head_overlap", OverlapOf(text), &card.head_overlap);
    if (entry.key() == "labels") take("labels", LabelsOf(text), &card.labels);
    if (entry.key() == "preprocessing") {
      take("preprocessing", PreprocessingOf(text), &card.preprocessing);
    }
  }
  return card;
}

}  // namespace crema
