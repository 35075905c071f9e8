// Average precision: the area below the curve of precision over recall, by the rules in use.
#pragma once

#include <cstdint>
#include <vector>

namespace crema {

enum class ApRule {
  kVoc07,     // SSD's 11point: mean of the best precision at recall 0, 0.1, ..., 1 or more
  kVoc12,     // SSD's MaxIntegral: every step of recall times the best precision from there on
  kIntegral,  // SSD's Integral: every step of recall times the precision there
  kCoco,      // as kVoc07, at 0, 0.01, ..., 1
};

enum class Verdict { kMiss, kHit, kIgnored };

struct JudgedDetection {
  double score = 0;
  Verdict verdict = Verdict::kMiss;
};

// Of the detections of one class in all images, in any order; those of equal score count in the
// order given. `objects` is how many there were to find; without any the answer is NaN.
double AveragePrecision(std::vector<JudgedDetection> detections, int64_t objects, ApRule rule);

}  // namespace crema
