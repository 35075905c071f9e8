#include "metrics/box_verdicts.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

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

struct CurvePoint {
  double recall = 0;
  double precision = 0;
};

// One point per detection, best first.
std::vector<CurvePoint> Curve(const std::vector<JudgedDetection>& detections, int64_t objects) {
  std::vector<CurvePoint> curve;
  double hits = 0;
  double misses = 0;
  for (const JudgedDetection& detection : detections) {
    if (detection.verdict == Verdict::kIgnored) continue;
    (detection.verdict == Verdict::kHit ? hits : misses) += 1;
    curve.push_back({hits / static_cast<double>(objects), hits / (hits + misses)});
  }
  return curve;
}

// Replaces each precision by the best one at this recall or more.
void TakeBestAtHigherRecall(std::vector<CurvePoint>* curve) {
  double best = 0;
  for (size_t i = curve->size(); i-- > 0;) {
    best = std::max(best, (*curve)[i].precision);
    (*curve)[i].precision = best;
  }
}

double AreaOf(const std::vector<CurvePoint>& curve) {
  double area = 0;
  double recall = 0;
  for (const CurvePoint& point : curve) {
    area += (point.recall - recall) * point.precision;
    recall = point.recall;
  }
  return area;
}

// Mean of the precisions at these recalls; 0 for a recall that is not reached.
double MeanAt(const std::vector<CurvePoint>& curve, std::span<const double> recalls) {
  double sum = 0;
  for (const double recall : recalls) {
    const auto point = std::ranges::lower_bound(curve, recall, {}, &CurvePoint::recall);
    if (point != curve.end()) sum += point->precision;
  }
  return sum / static_cast<double>(recalls.size());
}

std::vector<double> Tenths() {
  std::vector<double> recalls;
  for (int i = 0; i <= 10; ++i) recalls.push_back(i / 10.0);
  return recalls;
}

// Multiples of 0.01 as pycocotools computes them: some are a rounding error above i / 100.
std::vector<double> Hundredths() {
  std::vector<double> recalls;
  for (int i = 0; i < 100; ++i) recalls.push_back(i * 0.01);
  recalls.push_back(1);
  return recalls;
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

double AveragePrecision(std::vector<JudgedDetection> detections, int64_t objects, ApRule rule) {
  if (objects == 0) return std::numeric_limits<double>::quiet_NaN();
  for (JudgedDetection& detection : detections) {
    // NaN cannot be ordered: sort it last.
    if (std::isnan(detection.score)) detection.score = -std::numeric_limits<double>::infinity();
  }
  std::ranges::stable_sort(detections, std::ranges::greater{}, &JudgedDetection::score);
  std::vector<CurvePoint> curve = Curve(detections, objects);
  if (rule != ApRule::kIntegral) TakeBestAtHigherRecall(&curve);
  if (rule == ApRule::kVoc07) return MeanAt(curve, Tenths());
  return rule == ApRule::kCoco ? MeanAt(curve, Hundredths()) : AreaOf(curve);
}

}  // namespace crema
