// Classifies detected boxes as right or wrong by the rules of VOC and COCO, and computes the
// average precision, the area under the precision-recall curve.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "math/boxes.h"

namespace crema {

enum class ApRule {
  kVoc07,     // SSD's 11point: mean of the best precision at recall 0, 0.1, ..., 1 or more
  kVoc12,     // SSD's MaxIntegral: each recall step times the best precision from there on
  kIntegral,  // SSD's Integral: each recall step times the precision there
  kCoco,      // like kVoc07, at 0, 0.01, ..., 1
};

enum class Verdict { kMiss, kHit, kIgnored };

struct JudgedDetection {
  double score = 0;
  Verdict verdict = Verdict::kMiss;
};

// Computes the average precision of one class over all images. Detections of equal score are ranked
// in the order given. `objects` is the number of objects; 0 gives NaN.
double AveragePrecision(std::vector<JudgedDetection> detections, int64_t objects, ApRule rule);

struct DetectedBox {
  double score = 0;
  Box box;
};

struct ObjectBox {
  Box box;
  bool difficult = false;  // need not be found
};

// Boxes of one class in one image.
struct ImageBoxes {
  std::vector<DetectedBox> detections;
  std::vector<ObjectBox> objects;
};

struct Judged {
  std::vector<JudgedDetection> detections;
  int64_t objects = 0;  // that must be found
};

// VOC: in order of score, a detection is matched with the object that it overlaps most, by at least
// `overlap`. The first match of an object is a hit, later ones are misses. Ignores matches of
// difficult objects unless `difficult_counts`.
Judged JudgeVoc(const ImageBoxes& boxes, double overlap, bool difficult_counts);

// Area range of objects in the units of the boxes, inclusive.
struct AreaRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
};

// COCO: in order of score, a detection is matched with the free object that it overlaps most, by at
// least `overlap`, preferably one that counts. Ignores difficult objects and those outside the
// range with their matches, and unmatched detections outside the range. Uses only the best 100
// detections.
Judged JudgeCoco(const ImageBoxes& boxes, double overlap, const AreaRange& range = {});

}  // namespace crema
