// Images in, classes with scores out.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/log.h"
#include "format/prototxt.h"
#include "graph/registry.h"
#include "runtime/compute_device.h"
#include "runtime/session.h"
#include "runtime/weights_files.h"
#include "serving/image_input.h"

namespace crema {

struct Prediction {
  int index = 0;
  double score = 0;
};

// A deploy net with its weights. Thread safety: const; each thread makes a worker of its own.
class Classifier {
 public:
  // Requires a net with one input of shape N x C x H x W, C 1 (gray) or 3 (blue, green, red).
  // `output` names the blob with the scores; empty: the only output. Throws kInvalidArgument where
  // the net does not fit, for example a training net. `plan`: its `backward` counts as false, its
  // device is `device`.
  Classifier(const NetFile& net, const WeightsFiles& weights, const std::string& output,
             const Registry& registry, LogSink& log, const PlanOptions& plan = {},
             ComputeDevice device = {});

  int channels() const { return static_cast<int>(input_shape_[1]); }
  int height() const { return static_cast<int>(input_shape_[2]); }
  int width() const { return static_cast<int>(input_shape_[3]); }
  int classes() const { return static_cast<int>(classes_); }

  // Mean from a BlobProto file: as it is when it has the size of the input, one value a channel
  // otherwise. Throws when the number of channels differs.
  std::vector<float> ReadMean(const std::string& path) const;

  class Worker {
   public:
    // `threads` work on one image, where the classifier is on the CPU.
    Worker(const Classifier& classifier, int threads);
    // All classes, best first. `bytes` is an image file; `name` is for messages.
    // Throws kDataLoss for a broken image.
    std::vector<Prediction> Classify(const std::string& bytes, const std::string& name,
                                     const Preprocessing& preprocessing);

   private:
    const Classifier& classifier_;
    Session session_;
  };

 private:
  ComputeDevice device_;
  std::shared_ptr<const Plan> plan_;
  std::shared_ptr<const Weights> weights_;
  std::string input_;
  std::string output_;
  Shape input_shape_;
  int64_t classes_ = 0;
};

}  // namespace crema
