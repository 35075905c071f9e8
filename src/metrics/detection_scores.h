// Average precision of a detector over many images, per class, by the rules of VOC and COCO.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "metrics/box_verdicts.h"

namespace crema {

// Rates of one class, or means over classes with objects. NaN: there were no such objects.
struct DetectionRates {
  int64_t objects = 0;  // objects that must be found, by VOC's rule
  int64_t detections = 0;
  double voc07 = 0;
  double voc12 = 0;
  double integral = 0;
  double coco = 0;    // mean over overlaps 0.50, 0.55, ..., 0.95
  double coco50 = 0;  // at overlap 0.50
  double coco75 = 0;
  double coco_small = 0;   // like coco, for objects below 32 x 32 pixels
  double coco_medium = 0;  // up to 96 x 96 pixels
  double coco_large = 0;
};

struct DetectionRule {
  double overlap = 0.5;           // for VOC
  bool difficult_counts = false;  // for VOC; COCO ignores them
  double pixels = 1;              // pixels in a box of area 1
};

// Thread safety: one thread.
class DetectionScores {
 public:
  explicit DetectionScores(const DetectionRule& rule) : rule_(rule) {}

  void AddDetection(int64_t label, int64_t image, const DetectedBox& box) {
    boxes_[label][image].detections.push_back(box);
  }
  void AddObject(int64_t label, int64_t image, const ObjectBox& box) {
    boxes_[label][image].objects.push_back(box);
  }

  DetectionRates OfClass(int64_t label) const;
  // Returns the mean of each rate over the classes where it is not NaN; sums of the counts.
  DetectionRates Mean() const;

 private:
  using Images = std::map<int64_t, ImageBoxes>;
  double Coco(const Images& images, double overlap, const AreaRange& range) const;
  double MeanCoco(const Images& images, const AreaRange& range) const;
  void Voc(const Images& images, DetectionRates* rates) const;

  DetectionRule rule_;
  std::map<int64_t, Images> boxes_;  // by class
};

}  // namespace crema
