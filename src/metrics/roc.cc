#include "metrics/roc.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace crema {

double AreaUnderRoc(std::vector<ScoredLabel> samples) {
  for (ScoredLabel& sample : samples) {
    if (std::isnan(sample.score)) sample.score = -std::numeric_limits<float>::infinity();
  }
  std::ranges::sort(samples, {}, &ScoredLabel::score);
  double positives = 0;
  double negatives = 0;  // negatives below the current score
  double pairs = 0;      // correctly ordered pairs
  for (size_t i = 0; i < samples.size();) {
    double tied_positives = 0;
    double tied_negatives = 0;
    for (const float score = samples[i].score; i < samples.size() && samples[i].score == score;
         ++i) {
      (samples[i].positive ? tied_positives : tied_negatives) += 1;
    }
    pairs += tied_positives * (negatives + tied_negatives / 2);
    positives += tied_positives;
    negatives += tied_negatives;
  }
  if (positives == 0 || negatives == 0) return std::numeric_limits<double>::quiet_NaN();
  return pairs / (positives * negatives);
}

std::vector<double> AreasUnderRoc(std::span<const float> scores, std::span<const int32_t> labels,
                                  int64_t classes) {
  std::vector<double> areas;
  std::vector<ScoredLabel> samples(labels.size());
  for (int64_t c = 0; c < classes; ++c) {
    for (size_t i = 0; i < labels.size(); ++i) {
      samples[i] = {scores[i * static_cast<size_t>(classes) + static_cast<size_t>(c)],
                    labels[i] == c};
    }
    areas.push_back(AreaUnderRoc(samples));
  }
  return areas;
}

int64_t RankOf(std::span<const float> scores, int64_t label) {
  const float own = scores[static_cast<size_t>(label)];
  return std::ranges::count_if(scores, [own](float score) { return score >= own; });
}

}  // namespace crema
