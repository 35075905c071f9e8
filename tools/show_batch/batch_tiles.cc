#include "show_batch/batch_tiles.h"

#include <cmath>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "runtime/error_context.h"

namespace crema::tools {
namespace {

constexpr int64_t kRow = 8;  // image, label, instance, xmin, ymin, xmax, ymax, difficult

std::string NumberText(float value) {
  return value == std::floor(value) && std::abs(value) < 1e9F ? StrCat(static_cast<int64_t>(value))
                                                              : StrCat(value);
}

}  // namespace

BatchTiles::BatchTiles(const Plan& plan, std::vector<std::string> class_names)
    : picture_(plan, -1), class_names_(std::move(class_names)) {
  if (!picture_.exists()) {
    Fail(ErrorCode::kInvalidArgument,
         "this net has no data layer that gives images of one, three or four channels in this "
         "phase");
  }
  const PlannedLayer& layer = plan.layers[static_cast<size_t>(picture_.layer())];
  value_ = layer.outputs[0];
  batch_ = plan.values[static_cast<size_t>(value_)].spec.shape[0];
  if (layer.outputs.size() < 2) return;
  const PlannedValue& labels = plan.values[static_cast<size_t>(layer.outputs[1])];
  labels_ = labels.name;
  const Shape& shape = labels.spec.shape;
  const AugmentParameter& augment = layer.layer->param().transform_param().augment_param();
  mixed_ = shape.axes() == 2 && (augment.mixup() > 0 || augment.cutmix() > 0);
  boxes_ = layer.layer->param().type() == "AnnotatedData" && shape.axes() == 4 && shape[3] == kRow;
}

std::string BatchTiles::NameOf(float label) const {
  const bool known =
      label >= 0 && label == std::floor(label) && label < static_cast<float>(class_names_.size());
  return known ? class_names_[static_cast<size_t>(label)] : NumberText(label);
}

// One label, or several if the layer outputs several.
std::vector<std::string> BatchTiles::LabelsOf(const Session& session, int64_t index) const {
  std::vector<std::string> names;
  if (labels_.empty() || boxes_) return names;
  const ConstTensorView labels = session.Data(labels_);
  const int64_t each = labels.shape().count() / batch_;
  if (mixed_) {
    for (int64_t i = 0; i < each; ++i) {
      const float share = labels.span<float>()[static_cast<size_t>(index * each + i)];
      if (share > 0) names.push_back(StrCat(NameOf(static_cast<float>(i)), ":", share));
    }
    return names;
  }
  constexpr int64_t kMost = 16;  // more values are a mask
  for (int64_t i = 0; i < std::min(each, kMost); ++i) {
    const float label = labels.span<float>()[static_cast<size_t>(index * each + i)];
    names.push_back(each == 1 ? NameOf(label) : NumberText(label));
  }
  return names;
}

std::vector<CaptionedBox> BatchTiles::BoxesOf(const Session& session, int64_t index) const {
  std::vector<CaptionedBox> boxes;
  if (!boxes_) return boxes;
  const ConstTensorView rows = session.Data(labels_);
  const std::span<const float> values = rows.span<float>();
  for (int64_t i = 0; i < rows.shape()[2]; ++i) {
    const std::span<const float> row =
        values.subspan(static_cast<size_t>(i * kRow), static_cast<size_t>(kRow));
    if (row[0] != static_cast<float>(index)) continue;
    boxes.push_back({.box = {.xmin = row[3], .ymin = row[4], .xmax = row[5], .ymax = row[6]},
                     .caption = NameOf(row[1]) + (row[7] != 0 ? " (difficult)" : ""),
                     .color = static_cast<int>(row[1])});
  }
  return boxes;
}

Tile BatchTiles::MakeTile(const Session& session, int64_t index) const {
  Tile tile{.picture = picture_.Pixels(session, index),
            .caption = Join(LabelsOf(session, index), " "),
            .boxes = BoxesOf(session, index)};
  if (tile.caption.empty()) tile.caption = StrCat("#", index);
  return tile;
}

std::string BatchTiles::Describe(const Session& session, int64_t index) const {
  const std::string name = FindSampleName(session, value_, index);
  std::string text = StrCat(index, name.empty() ? "" : "  ", name);
  const std::vector<std::string> labels = LabelsOf(session, index);
  if (!labels.empty()) text += StrCat("  label ", Join(labels, " "));
  for (const CaptionedBox& box : BoxesOf(session, index)) {
    text += StrCat("  ", box.caption, " at ", box.box.xmin, " ", box.box.ymin, " ", box.box.xmax,
                   " ", box.box.ymax, ";");
  }
  return text;
}

}  // namespace crema::tools
