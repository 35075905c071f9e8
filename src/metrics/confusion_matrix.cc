#include "metrics/confusion_matrix.h"

#include <cmath>
#include <limits>
#include <numeric>

#include "crema.pb.h"

namespace crema {
namespace {

constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

double Ratio(double part, double whole) { return whole == 0 ? kNoRate : part / whole; }

}  // namespace

ConfusionMatrix::ConfusionMatrix(int64_t classes)
    : classes_(classes), counts_(static_cast<size_t>(classes * classes), 0) {}

int64_t ConfusionMatrix::Total() const {
  return std::accumulate(counts_.begin(), counts_.end(), int64_t{0});
}

int64_t ConfusionMatrix::Support(int64_t c) const {
  int64_t sum = 0;
  for (int64_t p = 0; p < classes_; ++p) sum += Count(c, p);
  return sum;
}

int64_t ConfusionMatrix::Predicted(int64_t c) const {
  int64_t sum = 0;
  for (int64_t t = 0; t < classes_; ++t) sum += Count(t, c);
  return sum;
}

double ConfusionMatrix::RateOf(int64_t c, int64_t part, int64_t whole) const {
  if (whole != 0) return static_cast<double>(part) / static_cast<double>(whole);
  return Support(c) + Predicted(c) == 0 ? kNoRate : 0;
}

double ConfusionMatrix::Precision(int64_t c) const { return RateOf(c, Count(c, c), Predicted(c)); }

double ConfusionMatrix::Recall(int64_t c) const { return RateOf(c, Count(c, c), Support(c)); }

double ConfusionMatrix::F1(int64_t c) const {
  return RateOf(c, 2 * Count(c, c), Support(c) + Predicted(c));
}

double ConfusionMatrix::Iou(int64_t c) const {
  return RateOf(c, Count(c, c), Support(c) + Predicted(c) - Count(c, c));
}

double ConfusionMatrix::Accuracy() const {
  int64_t right = 0;
  for (int64_t c = 0; c < classes_; ++c) right += Count(c, c);
  return Ratio(static_cast<double>(right), static_cast<double>(Total()));
}

double ConfusionMatrix::Mean(Rate rate) const {
  double sum = 0;
  int64_t present = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    const double value = (this->*rate)(c);
    if (std::isnan(value)) continue;
    sum += value;
    ++present;
  }
  return Ratio(sum, static_cast<double>(present));
}

double ConfusionMatrix::WeightedMean(Rate rate) const {
  double sum = 0;
  for (int64_t c = 0; c < classes_; ++c) {
    const int64_t support = Support(c);
    if (support != 0) sum += (this->*rate)(c) * static_cast<double>(support);
  }
  return Ratio(sum, static_cast<double>(Total()));
}

}  // namespace crema
