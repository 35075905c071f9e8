// Classifies detected boxes as right or wrong by the rules of VOC and COCO.
#pragma once

#include <cstdint>
#include <limits>
#include <vector>

#include "math/boxes.h"
#include "metrics/average_precision.h"

namespace crema {

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
