// Classifies images, and finds the classes with the highest scores.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/image_model.h"

namespace crema {

// Thread safety: const; each thread makes its own worker.
class Classifier {
 public:
  // Requires: a model for ImageModel with scores of shape N x classes. `output` names the scores;
  // empty: the only output. Throws kInvalidArgument if the model does not fit.
  Classifier(std::shared_ptr<const Model> model, const std::string& output);

  const ImageModel& image_model() const { return model_; }
  int classes() const { return static_cast<int>(classes_); }

  class Worker {
   public:
    Worker(const Classifier& classifier, const Preprocessing& preprocessing);
    // Returns the scores: images x classes; with ten_crops those are means over the crops. Valid
    // until the next call. Throws like ImageRunner::RunBySample.
    std::span<const float> Scores(std::span<const Image> images);

   private:
    std::vector<float> ScoresOfCrops(const Image& image);

    const Classifier& classifier_;
    const Preprocessing preprocessing_;
    ImageRunner runner_;
    std::vector<float> means_;  // of the last Scores
  };

 private:
  ImageModel model_;
  std::string output_;
  int64_t classes_ = 0;
};

// Returns the mean of `rows` rows, the scores of the crops of an image.
std::vector<float> MeanOfRows(std::span<const float> scores, int64_t rows);

struct Prediction {
  int index = 0;
  double score = 0;
};

// Returns the `most` best classes, best first; ties in index order, NaN last.
std::vector<Prediction> BestFirst(std::span<const float> scores,
                                  size_t most = std::numeric_limits<size_t>::max());

}  // namespace crema
