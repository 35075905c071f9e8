#include "onnx/export_preprocessing.h"

#include <algorithm>

#include "core/error.h"
#include "core/json.h"
#include "core/strings.h"

namespace crema {
namespace {

void Put(const std::string& key, const std::string& value, onnx::ModelProto* model) {
  onnx::StringStringEntryProto* entry = model->add_metadata_props();
  entry->set_key(key);
  entry->set_value(value);
}

}  // namespace

std::string ExportPreprocessing(OnnxGraphWriter* graph, const std::string& input,
                                const Shape& shape, const Preprocessing& preprocessing, bool only) {
  if (!only || shape.axes() != 4 || (shape[1] != 1 && shape[1] != 3)) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("preprocessing is for nets with one input N x C x H x W of 1 or 3 channels, but "
                "there is '",
                input, "' of ", ToString(shape), "; leave the preprocessing out"));
  }
  std::string x = input;
  if (shape[1] == 3 && !preprocessing.rgb) {
    x = graph->Add("Gather", {x, graph->Ints({2, 1, 0})}, {{"axis", 1}});
  }
  if (preprocessing.invert) x = graph->Add("Sub", {graph->Scalar(255), x});
  if (preprocessing.range != 255) {
    x = graph->Add("Mul", {x, graph->Scalar(preprocessing.range)});
    x = graph->Add("Div", {x, graph->Scalar(255)});
  }
  if (!preprocessing.mean.empty()) {
    const bool channels = static_cast<int64_t>(preprocessing.mean.size()) == shape[1];
    const std::vector<int64_t> dims = channels ? std::vector<int64_t>{shape[1], 1, 1}
                                               : std::vector<int64_t>{shape[1], shape[2], shape[3]};
    x = graph->Add("Sub", {x, graph->Floats(dims, preprocessing.mean)});
  }
  if (preprocessing.scale != 1) x = graph->Add("Mul", {x, graph->Scalar(preprocessing.scale)});
  if (!preprocessing.deviation.empty()) {
    x = graph->Add("Div", {x, graph->Floats({shape[1], 1, 1}, preprocessing.deviation)});
  }
  return x;
}

void AddMetadata(const ModelCard& card, bool inside, onnx::ModelProto* model) {
  if (!card.task.empty()) Put("task", card.task, model);
  if (!card.head.empty()) Put("head", card.head, model);
  if (card.head_overlap) Put("head_overlap", StrCat(*card.head_overlap), model);
  if (!card.labels.empty()) {
    std::vector<std::string> quoted;
    for (const std::string& label : card.labels) quoted.push_back(JsonString(label));
    Put("labels", StrCat("[", Join(quoted, ", "), "]"), model);
  }
  const Preprocessing& p = card.preprocessing;
  const Preprocessing defaults;
  if (!inside && p == defaults) return;
  constexpr size_t kMostChannels = 4;  // a mean image is too long for a text
  // In the order of `channels`.
  const auto list = [&](const std::vector<float>& numbers) {
    std::vector<std::string> texts;
    for (const float number : numbers) texts.push_back(StrCat(number));
    if (inside && !p.rgb) std::ranges::reverse(texts);
    return StrCat("[", Join(texts, ", "), "]");
  };
  std::string more;  // only what differs from the default
  if (p.range != defaults.range) more += StrCat(", \"range\": ", p.range);
  if (!p.deviation.empty()) more += StrCat(", \"std\": ", list(p.deviation));
  if (p.fit != defaults.fit) more += StrCat(", \"fit\": \"", ToString(p.fit), "\"");
  if (p.short_side != 0) more += StrCat(", \"short_side\": ", p.short_side);
  if (p.resize_height != 0) {
    more += StrCat(", \"resize\": [", p.resize_height, ", ", p.resize_width, "]");
  }
  if (p.interpolation != defaults.interpolation) {
    more += StrCat(", \"interpolation\": \"", ToString(p.interpolation), "\"");
  }
  if (p.pad != defaults.pad) more += StrCat(", \"pad\": ", p.pad);
  if (p.ten_crops) more += ", \"ten_crops\": true";
  Put("preprocessing",
      StrCat("{\"in_graph\": ", inside ? "true" : "false",
             ", \"mean\": ", p.mean.size() > kMostChannels ? "\"image\"" : list(p.mean),
             ", \"scale\": ", p.scale, ", \"invert\": ", p.invert ? "true" : "false",
             ", \"channels\": \"", inside || p.rgb ? "rgb" : "bgr", "\"", more, "}"),
      model);
}

}  // namespace crema
