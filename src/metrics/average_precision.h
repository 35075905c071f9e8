// Average precision: the area under the precision-recall curve, by several rules.
#pragma once

#include <cstdint>
#include <vector>

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

}  // namespace crema
