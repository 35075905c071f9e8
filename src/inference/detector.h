// Images in, boxes with classes and scores out.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image/draw_boxes.h"
#include "format/prototxt.h"
#include "inference/image_model.h"

namespace crema {

struct FoundBox {
  int label = 0;
  double score = 0;
  PixelBox box;  // of the picture, within it
};

// A model that ends in DetectionOutput. Thread safety: const; each thread makes a worker of its
// own.
class Detector {
 public:
  // Requires a model as ImageModel does, with one DetectionOutput whose output is an output of the
  // net. Scores must exceed `confidence`. Throws kInvalidArgument where that does not fit, for
  // example where the net leaves out more than that.
  Detector(std::shared_ptr<const Model> model, double confidence);

  const ImageModel& image_model() const { return model_; }
  int classes() const { return classes_; }

  class Worker {
   public:
    Worker(const Detector& detector, const Preprocessing& preprocessing);
    // The boxes of each image, best first.
    std::vector<std::vector<FoundBox>> Detect(std::span<const Image> images);

   private:
    const Detector& detector_;
    ImageRunner runner_;
  };

 private:
  ImageModel model_;
  double confidence_;
  std::string output_;
  int classes_ = 0;
};

// Changes to the DetectionOutput of a net before it becomes a model.
struct DecoderChanges {
  std::optional<double> confidence;  // confidence_threshold; empty: as the net says
  std::optional<double> nms;         // overlap above which the worse box goes
};

// They are made, and the layer writes no files. Throws kInvalidArgument for a net that has not
// exactly one such layer.
void ConfigureDecoder(const DecoderChanges& changes, NetFile* net);

// `net` with the layers of `tail` behind its own: a decoder for a net that ends in raw boxes and
// scores.
NetFile WithTail(NetFile net, const NetFile& tail);

}  // namespace crema
