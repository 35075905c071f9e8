// Images in, classes with scores out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/image_model.h"

namespace crema {

// Thread safety: const; each thread makes a worker of its own.
class Classifier {
 public:
  // Requires a model as ImageModel does, with scores of N x classes. `output` names the blob with
  // the scores; empty: the only output. Throws kInvalidArgument where it does not fit.
  Classifier(std::shared_ptr<const Model> model, const std::string& output);

  const ImageModel& image_model() const { return model_; }
  int classes() const { return static_cast<int>(classes_); }

  class Worker {
   public:
    Worker(const Classifier& classifier, const Preprocessing& preprocessing);
    // Scores of each image, one behind the other: images x classes. Valid until the next call.
    // Throws as ImageRunner::RunBySample.
    std::span<const float> Scores(std::span<const Image> images);

   private:
    const Classifier& classifier_;
    ImageRunner runner_;
  };

 private:
  ImageModel model_;
  std::string output_;
  int64_t classes_ = 0;
};

}  // namespace crema
