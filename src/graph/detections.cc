#include "graph/detections.h"

#include "core/error.h"
#include "crema.pb.h"

namespace crema {
namespace {

constexpr std::string_view kSsd = "DetectionOutput";
constexpr std::string_view kYoloV2 = "YoloDetectionOutput";
constexpr std::string_view kYoloV3 = "Yolov3DetectionOutput";

// Labels of YOLO begin at 1, as if class 0 were the background.
template <typename Param>
DetectionFacts YoloFacts(const Param& param) {
  return {.classes = static_cast<int>(param.num_classes()) + 1,
          .background = 0,
          .least = param.confidence_threshold()};
}

}  // namespace

bool MakesDetections(std::string_view type) {
  return type == kSsd || type == kYoloV2 || type == kYoloV3;
}

DetectionFacts DetectionFactsOf(const LayerParameter& layer) {
  CREMA_CHECK(MakesDetections(layer.type()));
  if (layer.type() == kYoloV2) return YoloFacts(layer.yolo_detection_output_param());
  if (layer.type() == kYoloV3) return YoloFacts(layer.yolov3_detection_output_param());
  const DetectionOutputParameter& param = layer.detection_output_param();
  DetectionFacts facts{.classes = static_cast<int>(param.num_classes()),
                       .background = param.background_label_id()};
  if (param.has_confidence_threshold()) facts.least = param.confidence_threshold();
  return facts;
}

void SetConfidence(float value, LayerParameter* layer) {
  CREMA_CHECK(MakesDetections(layer->type()));
  if (layer->type() == kYoloV2) {
    layer->mutable_yolo_detection_output_param()->set_confidence_threshold(value);
  } else if (layer->type() == kYoloV3) {
    layer->mutable_yolov3_detection_output_param()->set_confidence_threshold(value);
  } else {
    layer->mutable_detection_output_param()->set_confidence_threshold(value);
  }
}

void SetSuppression(float value, LayerParameter* layer) {
  CREMA_CHECK(MakesDetections(layer->type()));
  if (layer->type() == kYoloV2) {
    layer->mutable_yolo_detection_output_param()->set_nms_threshold(value);
  } else if (layer->type() == kYoloV3) {
    layer->mutable_yolov3_detection_output_param()->set_nms_threshold(value);
  } else {
    layer->mutable_detection_output_param()->mutable_nms_param()->set_nms_threshold(value);
  }
}

}  // namespace crema
