#include "inference/classifier.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/error.h"
#include "core/strings.h"

namespace crema {
namespace {

// Crops have the size of the input.
Preprocessing WithoutFit(Preprocessing p) {
  p.fit = ImageFit::kStretch;
  p.short_side = p.resize_height = p.resize_width = 0;
  p.ten_crops = false;
  return p;
}

}  // namespace

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
    : classifier_(classifier),
      preprocessing_(preprocessing),
      runner_(classifier.model_,
              preprocessing.ten_crops ? WithoutFit(preprocessing) : preprocessing) {}

std::span<const float> Classifier::Worker::Scores(std::span<const Image> images) {
  if (!preprocessing_.ten_crops) {
    runner_.RunBySample(images);
    return runner_.Output(classifier_.output_).span<float>();
  }
  means_.clear();
  for (const Image& image : images) std::ranges::copy(ScoresOfCrops(image), back_inserter(means_));
  return means_;
}

std::vector<float> Classifier::Worker::ScoresOfCrops(const Image& image) {
  const ImageModel& model = classifier_.model_;
  const std::vector<Image> crops = TenCrops(image, preprocessing_, model.height(), model.width());
  const size_t together = model.model().Batches() ? crops.size() : 1;
  std::vector<float> scores;
  for (size_t at = 0; at < crops.size(); at += together) {
    runner_.RunBySample(std::span<const Image>(crops).subspan(at, together));
    std::ranges::copy(runner_.Output(classifier_.output_).span<float>(), back_inserter(scores));
  }
  return MeanOfRows(scores, std::ssize(crops));
}

std::vector<float> MeanOfRows(std::span<const float> scores, int64_t rows) {
  std::vector<float> mean(scores.size() / static_cast<size_t>(rows));
  for (size_t i = 0; i < scores.size(); ++i) mean[i % mean.size()] += scores[i];
  for (float& value : mean) value /= static_cast<float>(rows);
  return mean;
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
