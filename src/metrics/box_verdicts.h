// Which detected boxes count as right, by the rules of VOC and of COCO.
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

// Of one class in one image.
struct ImageBoxes {
  std::vector<DetectedBox> detections;
  std::vector<ObjectBox> objects;
};

struct Judged {
  std::vector<JudgedDetection> detections;
  int64_t objects = 0;  // that had to be found
};

// VOC: best score first, a detection belongs to the object that it overlaps most, by `overlap` or
// more; the first one hits, later ones miss. Those of difficult objects are ignored, unless
// `difficult_counts`.
Judged JudgeVoc(const ImageBoxes& boxes, double overlap, bool difficult_counts);

// Areas of objects in the units of the boxes; both ends belong to the range.
struct AreaRange {
  double least = 0;
  double most = std::numeric_limits<double>::infinity();
};

// COCO: best score first, a detection takes the object that it overlaps most among those that are
// free, by `overlap` or more, if possible one that counts. Difficult objects and those outside the
// range are ignored with the detections that took them, and so are detections outside the range
// that took none. Only the best 100 detections are looked at.
Judged JudgeCoco(const ImageBoxes& boxes, double overlap, const AreaRange& range = {});

}  // namespace crema
