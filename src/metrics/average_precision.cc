#include "metrics/average_precision.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <span>

namespace crema {
namespace {

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
