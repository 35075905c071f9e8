#include "metrics/box_verdicts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

namespace crema {
namespace {

constexpr size_t kMostCocoDetections = 100;  // per class and image

std::vector<DetectedBox> BestFirst(std::vector<DetectedBox> detections) {
  for (DetectedBox& detection : detections) {
    if (std::isnan(detection.score)) detection.score = -std::numeric_limits<double>::infinity();
  }
  std::ranges::stable_sort(detections, std::ranges::greater{}, &DetectedBox::score);
  return detections;
}

bool Within(const AreaRange& range, const Box& box) {
  const double area = Area(box);
  return area >= range.least && area <= range.most;
}

struct CocoObject {
  Box box;
  bool ignored = false;
  bool taken = false;
};

// Returns the objects that count first, then the ignored ones.
std::vector<CocoObject> CocoObjects(const ImageBoxes& boxes, const AreaRange& range) {
  std::vector<CocoObject> objects;
  for (const ObjectBox& object : boxes.objects) {
    objects.push_back({object.box, object.difficult || !Within(range, object.box), false});
  }
  std::ranges::stable_sort(objects, {}, &CocoObject::ignored);
  return objects;
}

CocoObject* BestFree(const Box& box, double overlap, std::vector<CocoObject>* objects) {
  double best = std::min(overlap, 1 - 1e-10);
  CocoObject* found = nullptr;
  for (CocoObject& object : *objects) {
    if (object.taken) continue;
    if (found != nullptr && !found->ignored && object.ignored) break;
    const double own = Overlap(box, object.box);
    if (!(own >= best)) continue;
    best = own;
    found = &object;
  }
  return found;
}

}  // namespace

Judged JudgeVoc(const ImageBoxes& boxes, double overlap, bool difficult_counts) {
  Judged judged;
  const auto counts = [&](const ObjectBox& o) { return difficult_counts || !o.difficult; };
  judged.objects = std::ranges::count_if(boxes.objects, counts);
  std::vector<bool> taken(boxes.objects.size(), false);
  for (const DetectedBox& detection : BestFirst(boxes.detections)) {
    double best = -1;
    size_t which = 0;
    for (size_t o = 0; o < taken.size(); ++o) {
      const double own = Overlap(detection.box, boxes.objects[o].box);
      if (!(own > best)) continue;
      best = own;
      which = o;
    }
    Verdict verdict = Verdict::kMiss;
    if (best >= overlap) {
      if (!counts(boxes.objects[which])) {
        verdict = Verdict::kIgnored;
      } else if (!taken[which]) {
        verdict = Verdict::kHit;
        taken[which] = true;
      }
    }
    judged.detections.push_back({detection.score, verdict});
  }
  return judged;
}

Judged JudgeCoco(const ImageBoxes& boxes, double overlap, const AreaRange& range) {
  Judged judged;
  std::vector<CocoObject> objects = CocoObjects(boxes, range);
  judged.objects = std::ranges::count(objects, false, &CocoObject::ignored);
  std::vector<DetectedBox> detections = BestFirst(boxes.detections);
  if (detections.size() > kMostCocoDetections) detections.resize(kMostCocoDetections);
  for (const DetectedBox& detection : detections) {
    CocoObject* const object = BestFree(detection.box, overlap, &objects);
    Verdict verdict = Within(range, detection.box) ? Verdict::kMiss : Verdict::kIgnored;
    if (object != nullptr) {
      object->taken = true;
      verdict = object->ignored ? Verdict::kIgnored : Verdict::kHit;
    }
    judged.detections.push_back({detection.score, verdict});
  }
  return judged;
}

}  // namespace crema
