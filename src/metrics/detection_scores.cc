#include "metrics/detection_scores.h"

#include <array>
#include <cmath>
#include <limits>

namespace crema {
namespace {

constexpr int kOverlaps = 10;
constexpr std::array kRates = {
    &DetectionRates::voc07,      &DetectionRates::voc12,       &DetectionRates::integral,
    &DetectionRates::coco,       &DetectionRates::coco50,      &DetectionRates::coco75,
    &DetectionRates::coco_small, &DetectionRates::coco_medium, &DetectionRates::coco_large};

void Append(const Judged& judged, Judged* all) {
  all->objects += judged.objects;
  all->detections.insert(all->detections.end(), judged.detections.begin(), judged.detections.end());
}

// Mean of all values except NaN; NaN if there are none.
class MeanOfNumbers {
 public:
  void Add(double value) {
    if (std::isnan(value)) return;
    sum_ += value;
    ++count_;
  }
  double Get() const {
    return count_ == 0 ? std::numeric_limits<double>::quiet_NaN() : sum_ / count_;
  }

 private:
  double sum_ = 0;
  int count_ = 0;
};

}  // namespace

double DetectionScores::Coco(const Images& images, double overlap, const AreaRange& range) const {
  Judged all;
  for (const auto& [image, boxes] : images) Append(JudgeCoco(boxes, overlap, range), &all);
  return AveragePrecision(std::move(all.detections), all.objects, ApRule::kCoco);
}

double DetectionScores::MeanCoco(const Images& images, const AreaRange& range) const {
  MeanOfNumbers mean;
  for (int i = 0; i < kOverlaps; ++i) mean.Add(Coco(images, 0.5 + 0.05 * i, range));
  return mean.Get();
}

void DetectionScores::Voc(const Images& images, DetectionRates* rates) const {
  Judged all;
  for (const auto& [image, boxes] : images) {
    Append(JudgeVoc(boxes, rule_.overlap, rule_.difficult_counts), &all);
  }
  rates->objects = all.objects;
  rates->detections = static_cast<int64_t>(all.detections.size());
  rates->voc07 = AveragePrecision(all.detections, all.objects, ApRule::kVoc07);
  rates->voc12 = AveragePrecision(all.detections, all.objects, ApRule::kVoc12);
  rates->integral = AveragePrecision(all.detections, all.objects, ApRule::kIntegral);
}

DetectionRates DetectionScores::OfClass(int64_t label) const {
  const auto found = boxes_.find(label);
  const Images none;
  const Images& images = found == boxes_.end() ? none : found->second;
  DetectionRates rates;
  Voc(images, &rates);
  rates.coco = MeanCoco(images, {});
  rates.coco50 = Coco(images, 0.5, {});
  rates.coco75 = Coco(images, 0.5 + 0.05 * 5, {});
  const double infinity = std::numeric_limits<double>::infinity();
  const double small = 32 * 32 / rule_.pixels;
  const double medium = 96 * 96 / rule_.pixels;
  rates.coco_small = MeanCoco(images, {0, small});
  rates.coco_medium = MeanCoco(images, {small, medium});
  rates.coco_large = MeanCoco(images, {medium, infinity});
  return rates;
}

DetectionRates DetectionScores::Mean() const {
  DetectionRates mean;
  std::array<MeanOfNumbers, kRates.size()> sums;
  for (const auto& [label, images] : boxes_) {
    const DetectionRates rates = OfClass(label);
    mean.objects += rates.objects;
    mean.detections += rates.detections;
    for (size_t i = 0; i < kRates.size(); ++i) sums[i].Add(rates.*kRates[i]);
  }
  for (size_t i = 0; i < kRates.size(); ++i) mean.*kRates[i] = sums[i].Get();
  return mean;
}

}  // namespace crema
