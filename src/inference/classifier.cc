#include "inference/classifier.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {

Classifier::Classifier(std::shared_ptr<const Model> model, const std::string& output)
    : model_(std::move(model), "classification"), output_(model_.FindOutput(output)) {
  const Shape scores = model_.OutputShape(output_, 1);
  if (scores.axes() == 0 || scores[0] != 1 || scores.count() == 0) {
    Fail(ErrorCode::kInvalidArgument, StrCat("classification needs scores of N x classes; '",
                                             output_, "' is ", ToString(scores), " for one image"));
  }
  classes_ = scores.count(1);
}

Classifier::Worker::Worker(const Classifier& classifier, const Preprocessing& preprocessing)
    : classifier_(classifier), runner_(classifier.model_, preprocessing) {}

std::span<const float> Classifier::Worker::Scores(std::span<const Image> images) {
  runner_.RunBySample(images);
  return runner_.Output(classifier_.output_).span<float>();
}

std::vector<Prediction> BestFirst(std::span<const float> scores, size_t most) {
  std::vector<Prediction> all;
  all.reserve(scores.size());
  for (const float score : scores) all.push_back({static_cast<int>(all.size()), score});
  const size_t kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(kept), all.end(),
                    [](const Prediction& a, const Prediction& b) {
                      if (std::isnan(a.score) != std::isnan(b.score)) return std::isnan(b.score);
                      if (a.score > b.score || a.score < b.score) return a.score > b.score;
                      return a.index < b.index;
                    });
  all.resize(kept);
  return all;
}

}  // namespace crema
