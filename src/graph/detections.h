// Layers whose output is a list of detections: rows image, label, score, xmin, ymin, xmax, ymax in
// units of the image, 1 x 1 x D x 7.
#pragma once

#include <optional>
#include <string_view>

namespace crema {

class LayerParameter;

// Returns true for DetectionOutput, YoloDetectionOutput and Yolov3DetectionOutput.
bool MakesDetections(std::string_view type);

struct DetectionFacts {
  int classes = 0;                  // labels are below this
  int background = -1;              // label that no detection has; -1: none
  std::optional<float> least = {};  // scores exceed it
};

// Requires: a layer that makes detections.
DetectionFacts DetectionFactsOf(const LayerParameter& layer);

// Set a threshold of a layer that makes detections: the score that they must exceed, and the
// overlap above which the worse of two boxes is dropped.
void SetConfidence(float value, LayerParameter* layer);
void SetSuppression(float value, LayerParameter* layer);

}  // namespace crema
