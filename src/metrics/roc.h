// How well scores separate two kinds of samples.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace crema {

struct ScoredLabel {
  float score = 0;
  bool positive = false;
};

// The area under the ROC curve: how likely a positive sample has a higher score than a negative
// one, ties counting half and NaN being the lowest score. NaN unless there are samples of both
// kinds.
double AreaUnderRoc(std::vector<ScoredLabel> samples);

// The same for each class against all others. `scores` holds `classes` values for each label. NaN
// for classes that no sample, or every sample, belongs to.
std::vector<double> AreasUnderRoc(std::span<const float> scores, std::span<const int32_t> labels,
                                  int64_t classes);

// How many classes score as high as `label` or higher, itself included: 1 is the best. A sample is
// right among the top k when this is k or less; ties count against it, as in the Accuracy layer.
int64_t RankOf(std::span<const float> scores, int64_t label);

}  // namespace crema
