// Images in, the class of each pixel out.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/image_model.h"

namespace crema {

// Thread safety: const; each thread makes a worker of its own.
class Segmenter {
 public:
  // Requires a model as ImageModel does, with scores of N x classes x H x W, 2 to 256 classes.
  // `output` names their blob; empty: the only output. Throws kInvalidArgument where it does not
  // fit.
  Segmenter(std::shared_ptr<const Model> model, const std::string& output);

  const ImageModel& image_model() const { return model_; }
  int classes() const { return classes_; }

  class Worker {
   public:
    Worker(const Segmenter& segmenter, const Preprocessing& preprocessing);
    // For each image the best class of each pixel, of equal ones the first: one channel, in the
    // size of the scores. Throws as
    // ImageRunner::RunBySample.
    std::vector<Image> Segment(std::span<const Image> images);

   private:
    const Segmenter& segmenter_;
    ImageRunner runner_;
  };

 private:
  ImageModel model_;
  std::string output_;
  int classes_ = 0;
};

// Which part of the pixels each class has.
std::vector<double> SharesOf(const Image& classes, int class_count);

}  // namespace crema
