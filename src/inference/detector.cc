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
    "output of this net";

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

std::vector<HeadOutput> HeadOutputsOf(const ImageModel& model) {
  const std::shared_ptr<const Plan> plan = model.PlanForBatch(1);
  std::vector<HeadOutput> outputs;
  for (const BlobInfo& blob : model.model().outputs()) {
    const Shape shape = model.OutputShape(blob.name, 1);
    const bool by_image = shape.axes() > 1 && shape[0] == 1 && blob.dtype == DType::kF32;
    outputs.push_back({blob.name, by_image ? Shape(shape.dims().subspan(1)) : Shape(),
                       IsMovedFrom(plan->written, blob.name, "Convolution")});
  }
  return outputs;
}

// The head is known by the layers of the net, so that --head and a decoder are for other nets.
std::optional<RegionHead> FindRegionHead(const ImageModel& model) {
  if (!model.model().card().head.empty() || HasDecoder(model.PlanForBatch(1)->written)) return {};
  return RegionHead::Find(model);
}

[[noreturn]] void FailWithoutHead(const ImageModel& model) {
  if (!model.sizes_input().empty()) {
    Fail(ErrorCode::kInvalidArgument, RegionHead::Explain(model));
  }
  const std::vector<std::string> candidates =
      DetectionHead::Candidates(HeadOutputsOf(model), model.height(), model.width());
  if (!candidates.empty()) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat(kNoDecoder, ", but the shapes of its outputs are those of the heads ",
                Join(candidates, ", "), "; choose one with --head (in Python: `head`)"));
  }
  Fail(
      ErrorCode::kInvalidArgument,
      StrCat(kNoDecoder, ", and the shapes of its outputs are those of no head that --head names (",
             Join(DetectionHead::Names(), ", "),
             "). If it ends in raw boxes and scores, give the layers that decode them with "
             "--tail"));
}

}  // namespace

std::optional<DetectionHead> FindDetectionHead(const ImageModel& model) {
  const bool decodes = HasDecoder(model.PlanForBatch(1)->written);
  const std::string& name = model.model().card().head;
  if (decodes && name.empty()) return std::nullopt;
  if (decodes) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("the head ", name, " decodes raw outputs, but a layer of this net does so"));
  }
  return DetectionHead::Find(name, HeadOutputsOf(model), model.height(), model.width());
}

bool HasDecoder(const NetParameter& net) {
  return std::ranges::any_of(
      net.layer(), [](const LayerParameter& layer) { return MakesDetections(layer.type()); });
}

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
    : model_(std::move(model), "detection"),
      confidence_(confidence),
      regions_(FindRegionHead(model_)) {
  if (!regions_) head_ = FindDetectionHead(model_);
  if (!regions_ && !head_) {
    ReadDecoder();
    return;
  }
  outputs_ = regions_ ? regions_->outputs() : head_->outputs();
  classes_ = regions_ ? regions_->classes() : head_->classes();
}

void Detector::ReadDecoder() {
  NetParameter written = model_.PlanForBatch(1)->written;
  if (!HasDecoder(written)) FailWithoutHead(model_);
  const LayerParameter* decoder = FindDecoder(&written, "");
  outputs_ = {decoder->top(0)};
  const DetectionFacts facts = DetectionFactsOf(*decoder);
  classes_ = facts.classes;
  const bool is_output = std::ranges::any_of(
      model_.model().outputs(), [&](const BlobInfo& blob) { return blob.name == outputs_[0]; });
  if (!is_output) Fail(ErrorCode::kInvalidArgument, kNoDecoder);
  least_score_ = facts.least.value_or(0);
  if (facts.least && static_cast<float>(confidence_) < *facts.least) {
    Fail(ErrorCode::kInvalidArgument,
         StrCat("boxes of scores down to ", confidence_,
                " are wanted, but the model was exported to find none below ", *facts.least,
                "; export it with that --confidence"));
  }
}

const char* Detector::classes_note() const {
  return head_ && !head_->background() ? " classes" : " classes, background included";
}

std::vector<FoundBox> Detector::BoxesOf(std::span<const std::span<const float>> values,
                                        size_t index, int height, int width,
                                        const ImagePlacement& place, double confidence) const {
  const AxisMap x = ColumnsOfImage(place, place.input_width);
  const AxisMap y = RowsOfImage(place, place.input_height);
  const auto least = static_cast<float>(confidence);
  std::vector<FoundBox> found;
  if (regions_) {
    for (const auto& [label, score, box, points] : regions_->Decode(
             values, height, width, place, double{least}, model_.model().card().head_overlap)) {
      found.push_back({label, score, {box.xmin, box.ymin, box.xmax, box.ymax}});
    }
    return found;
  }
  const auto add = [&](int label, double score, const Box& box) {
    found.push_back({label,
                     score,
                     {Within(x(box.xmin), width), Within(y(box.ymin), height),
                      Within(x(box.xmax), width), Within(y(box.ymax), height)}});
  };
  if (head_) {
    const double across = model_.width(), down = model_.height();
    for (HeadObject& object :
         head_->Decode(values, index, double{least}, model_.model().card().head_overlap)) {
      add(object.label, object.score, Scale(object.box, 1 / across, 1 / down));
      for (KeyPoint& point : object.keypoints) {
        point = {x(point.x / across) * width, y(point.y / down) * height};
      }
      found.back().keypoints = std::move(object.keypoints);
    }
    return found;
  }
  const std::span<const float> rows = values[0];
  for (size_t r = 0; r + 7 <= rows.size(); r += 7) {
    const float* row = rows.data() + r;
    if (row[0] != static_cast<float>(index) || row[1] < 0 || !(row[2] > least)) continue;
    add(static_cast<int>(row[1]), double{row[2]},
        {double{row[3]}, double{row[4]}, double{row[5]}, double{row[6]}});
  }
  std::ranges::stable_sort(found, std::ranges::greater{}, &FoundBox::score);
  return found;
}

void RefuseTenCrops(const Preprocessing& preprocessing) {
  if (!preprocessing.ten_crops) return;
  Fail(
      ErrorCode::kInvalidArgument,
      "ten crops (ten_crops) are for models that classify: their scores have a mean, boxes do not");
}

Detector::Worker::Worker(const Detector& detector, const Preprocessing& preprocessing)
    : detector_(detector), runner_(detector.model_, preprocessing) {
  RefuseTenCrops(preprocessing);
}

std::vector<std::vector<FoundBox>> Detector::Worker::Detect(std::span<const Image> images) {
  if (detector_.model_.sizes_input().empty()) return DetectBatch(images);
  std::vector<std::vector<FoundBox>> found;
  for (const Image& image : images) found.push_back(std::move(DetectBatch({&image, 1})[0]));
  return found;
}

std::vector<std::vector<FoundBox>> Detector::Worker::DetectBatch(std::span<const Image> images) {
  if (detector_.head_) {
    runner_.RunBySample(images);
  } else {
    runner_.Run(images);
  }
  std::vector<std::span<const float>> values;
  for (const std::string& output : detector_.outputs_) {
    values.push_back(runner_.Output(output).span<float>());
  }
  std::vector<std::vector<FoundBox>> found;
  for (size_t i = 0; i < images.size(); ++i) {
    found.push_back(detector_.BoxesOf(values, i, images[i].height, images[i].width,
                                      runner_.Place(images[i]), detector_.confidence_));
  }
  return found;
}

}  // namespace crema
