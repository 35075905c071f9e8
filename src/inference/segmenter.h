// Segments images: computes the class of each pixel.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "inference/image_model.h"

namespace crema {

// Thread safety: const; each thread makes its own worker.
class Segmenter {
 public:
  // Requires: a model for ImageModel with scores of shape N x classes x H x W, 2 to 256 classes.
  // `output` names the scores; empty: the only output. Throws kInvalidArgument if the model does
  // not fit.
  Segmenter(std::shared_ptr<const Model> model, const std::string& output);

  const ImageModel& image_model() const { return model_; }
  int classes() const { return classes_; }
  // The output of the net that has the scores.
  const std::string& output() const { return output_; }

  // Returns one image of one channel, in the size of the scores: the best class of each pixel, the
  // first of equal ones. `scores` is the value of output(), `sample` the image in its batch,
  // `place` its place in the input; the bars of a letterbox are left out.
  Image ClassesOf(const ConstTensorView& scores, int64_t sample, const ImagePlacement& place) const;

  class Worker {
   public:
    Worker(const Segmenter& segmenter, const Preprocessing& preprocessing);
    // Returns ClassesOf each image. Throws like ImageRunner::RunBySample.
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

// Throws kInvalidArgument if the preprocessing crops images: parts of them would have no class.
void RefuseCrop(const Preprocessing& preprocessing);

struct ClassShare {
  int index = 0;
  double share = 0;  // of the pixels
};

// Returns the classes that occur, largest share first.
std::vector<ClassShare> SharesOf(const Image& classes, int class_count);

}  // namespace crema
