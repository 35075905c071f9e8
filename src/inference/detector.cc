#include "inference/detector.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/detections.h"

namespace crema {
namespace {

constexpr const char* kNoDecoder =
    "no layer of type DetectionOutput, YoloDetectionOutput or Yolov3DetectionOutput gives an "
    "output "
    "of this net; if it ends in raw boxes and scores, give the layers that decode them with --tail "
    "(see models/ultra_light_face)";

LayerParameter* FindDecoder(NetParameter* net, const std::string& file) {
  LayerParameter* decoder = nullptr;
  for (LayerParameter& layer : *net->mutable_layer()) {
    if (!MakesDetections(layer.type())) continue;
    if (decoder != nullptr) {
      Fail(ErrorCode::kInvalidArgument,
           StrCat("a net for detection has one ", decoder->type(), "; this one has \"",
                  decoder->name(), "\" and \"", layer.name(), "\""),
           {.file = file});
    }
    decoder = &layer;
  }
  if (decoder == nullptr || decoder->top_size() != 1) {
    Fail(ErrorCode::kInvalidArgument, kNoDecoder, {.file = file});
  }
  return decoder;
}

double Within(double value, double end) { return std::clamp(value, 0.0, 1.0) * end; }

}  // namespace

void ConfigureDecoder(const DecoderChanges& changes, NetFile* net) {
  LayerParameter* decoder = FindDecoder(&net->net, net->source.Locate("").file);
  if (changes.confidence) SetConfidence(static_cast<float>(*changes.confidence), decoder);
  if (changes.nms) SetSuppression(static_cast<float>(*changes.nms), decoder);
  if (!decoder->has_detection_output_param()) return;
  DetectionOutputParameter* param = decoder->mutable_detection_output_param();
  param->clear_save_output_param();
  param->clear_visualize();
}

NetFile WithTail(NetFile net, const NetFile& tail) {
  for (const LayerParameter& layer : tail.net.layer()) *net.net.add_layer() = layer;
  net.warnings.insert(net.warnings.end(), tail.warnings.begin(), tail.warnings.end());
  return net;
}

Detector::Detector(std::shared_ptr<const Model> model, double confidence)
    : model_(std::move(model), "detection"), confidence_(confidence) {
  NetParameter written = model_.PlanForBatch(1)->written;
  const LayerParameter* decoder = FindDecoder(&written, "");
  output_ = decoder->top(0);
  const DetectionFacts facts = DetectionFactsOf(*decoder);
  classes_ = facts.classes;
  const bool is_output = std::ranges::any_of(
      model_.model().outputs(), [&](const BlobInfo& blob) { return blob.name == output_; });
  if (!is_output) Fail(ErrorCode::kInvalidArgument, kNoDecoder);
  least_score_ = facts.least.value_or(0);
  if (facts.least && static_cast<float>(confidence) < *facts.least) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("boxes of scores down to ", confidence,
                " are wanted, but the model was exported to find none below ", *facts.least,
                "; export it with that --confidence"));
  }
}

std::vector<FoundBox> Detector::BoxesOf(std::span<const float> rows, size_t index, int height,
                                        int width, const ImagePlacement& place,
                                        double confidence) const {
  const AxisMap x = ColumnsOfImage(place, model_.width());
  const AxisMap y = RowsOfImage(place, model_.height());
  const auto least = static_cast<float>(confidence);
  std::vector<FoundBox> found;
  for (size_t r = 0; r + 7 <= rows.size(); r += 7) {
    const float* row = rows.data() + r;
    if (row[0] != static_cast<float>(index) || row[1] < 0 || !(row[2] > least)) continue;
    const PixelBox box{Within(x(double{row[3]}), width), Within(y(double{row[4]}), height),
                       Within(x(double{row[5]}), width), Within(y(double{row[6]}), height)};
    found.push_back({static_cast<int>(row[1]), double{row[2]}, box});
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &FoundBox::score);
  return found;
}

Detector::Worker::Worker(const Detector& detector, const Preprocessing& preprocessing)
    : detector_(detector), runner_(detector.model_, preprocessing) {}

std::vector<std::vector<FoundBox>> Detector::Worker::Detect(std::span<const Image> images) {
  runner_.Run(images);
  const std::span<const float> rows = runner_.Output(detector_.output_).span<float>();
  std::vector<std::vector<FoundBox>> found;
  for (size_t i = 0; i < images.size(); ++i) {
    found.push_back(detector_.BoxesOf(rows, i, images[i].height, images[i].width,
                                      runner_.Place(images[i]), detector_.confidence_));
  }
  return found;
}

}  // namespace crema
