// Images in, boxes with classes and scores out.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/log.h"
#include "data/image/draw_boxes.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"
#include "runtime/weights_files.h"
#include "serving/image_input.h"

namespace crema {

struct DetectorOptions {
  double confidence = 0.6;    // scores must exceed it
  std::optional<double> nms;  // overlap above which the worse box goes; empty: as the net says
  PlanOptions plan = {};      // its `backward` counts as false, its device is `device`
  ComputeDevice device = {};
};

struct FoundBox {
  int label = 0;
  double score = 0;
  PixelBox box;  // of the picture, within it
};

// A deploy net that ends in DetectionOutput, with its weights. Thread safety: const; each thread
// makes a worker of its own.
class Detector {
 public:
  // Requires a net with one input of shape N x C x H x W, C 1 (gray) or 3, and one DetectionOutput
  // whose output is an output of the net. Its confidence_threshold (and nms_threshold) become those
  // of the options, and it writes no files. Throws kInvalidArgument where the net does not fit.
  Detector(const NetFile& net, const WeightsFiles& files, const DetectorOptions& options,
           const Registry& registry, LogSink& log);

  int channels() const { return static_cast<int>(input_shape_[1]); }
  int classes() const { return classes_; }

  class Worker {
   public:
    // `threads` work on one image, where the detector is on the CPU.
    Worker(const Detector& detector, int threads);
    // Best first. `bytes` is an image file; `name` is for messages. Throws kDataLoss for a broken
    // image.
    std::vector<FoundBox> Detect(const std::string& bytes, const std::string& name,
                                 const Preprocessing& preprocessing);

   private:
    const Detector& detector_;
    Session session_;
  };

 private:
  ComputeDevice device_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  std::string input_;
  std::string output_;
  Shape input_shape_;
  int classes_ = 0;
};

// `net` with the layers of `tail` behind its own: a decoder for a net that ends in raw boxes and
// scores.
NetFile WithTail(NetFile net, const NetFile& tail);

}  // namespace crema
