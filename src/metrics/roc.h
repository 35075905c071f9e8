// Metrics of how well scores separate classes.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

struct ScoredLabel {
  float score = 0;
  bool positive = false;
};

// Area under the ROC curve: the probability that a positive sample has a higher score than a
// negative one. Ties count half; NaN is the lowest score. Returns NaN unless there are samples of
// both kinds.
double AreaUnderRoc(std::vector<ScoredLabel> samples);

// Does the same for each class against all others. `scores` holds `classes` values per label. NaN
// for classes without positive or without negative samples.
std::vector<double> AreasUnderRoc(std::span<const float> scores, std::span<const int32_t> labels,
                                  int64_t classes);

// Counts the classes that score at least as high as `label`, itself included: 1 is best. A top-k
// prediction is right if this is at most k. Ties count against it, as in the Accuracy layer.
int64_t RankOf(std::span<const float> scores, int64_t label);

}  // namespace crema
