// Detects objects in images.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/image/draw_boxes.h"
#include "format/prototxt.h"
#include "inference/detection_heads.h"
#include "inference/image_model.h"
#include "inference/region_head.h"

namespace crema {

// Least score of boxes unless another is asked for.
inline constexpr double kDefaultConfidence = 0.6;

struct FoundBox {
  int label = 0;
  double score = 0;
  PixelBox box;                          // in pixels, clipped to the picture
  std::vector<KeyPoint> keypoints = {};  // in pixels, beyond the picture too
};

// Returns the raw outputs that boxes are decoded from: those of card().head, or found from the net.
// Nothing: the net makes detections itself, or the outputs are not certainly those of a head.
// Throws kInvalidArgument if they do not suit card().head.
std::optional<DetectionHead> FindDetectionHead(const ImageModel& model);

// Finds the boxes in the outputs of a model. Thread safety: const.
class BoxReader {
 public:
  virtual ~BoxReader() = default;
  // The outputs of the net that have the boxes.
  virtual const std::vector<std::string>& outputs() const = 0;
  // The net finds no boxes of lower scores.
  virtual double least_score() const = 0;
  // The least score of boxes unless another is asked for.
  virtual double default_confidence() const = 0;
  // Returns the boxes of one image of height x width with scores above `confidence`, best first.
  // `values` are those of outputs(), `index` the image in its batch, `place` its place in the
  // input.
  virtual std::vector<FoundBox> BoxesOf(std::span<const std::span<const float>> values,
                                        size_t index, int height, int width,
                                        const ImagePlacement& place, double confidence) const = 0;
};

// A model that ends in a layer that makes detections (graph/detections.h), in a DetectionHead or in
// a RegionHead.
// Thread safety: const; each thread makes its own worker.
class Detector final : public BoxReader {
 public:
  // Requires: a model for ImageModel with one such layer, whose output is an output of the net, or
  // with such a head. Detectors of regions are prepared by PrepareRegionNet.
  // Returns boxes with scores above `confidence`. Throws kInvalidArgument if the model does not
  // fit, for example if its own threshold is higher.
  Detector(std::shared_ptr<const Model> model, double confidence);

  const ImageModel& image_model() const { return model_; }
  // Labels are below this; 0: unknown.
  int classes() const { return classes_; }
  // For messages after classes().
  const char* classes_note() const;
  const std::vector<std::string>& outputs() const override { return outputs_; }
  double least_score() const override { return least_score_; }
  double default_confidence() const override { return std::max(kDefaultConfidence, least_score_); }
  std::vector<FoundBox> BoxesOf(std::span<const std::span<const float>> values, size_t index,
                                int height, int width, const ImagePlacement& place,
                                double confidence) const override;

  class Worker {
   public:
    Worker(const Detector& detector, const Preprocessing& preprocessing);
    // Returns the boxes of each image, best first.
    std::vector<std::vector<FoundBox>> Detect(std::span<const Image> images);

   private:
    std::vector<std::vector<FoundBox>> DetectBatch(std::span<const Image> images);

    const Detector& detector_;
    ImageRunner runner_;
  };

 private:
  void ReadDecoder();

  ImageModel model_;
  double confidence_;
  std::optional<RegionHead> regions_;
  std::optional<DetectionHead> head_;  // neither: a layer makes the boxes
  std::vector<std::string> outputs_;
  int classes_ = 0;
  double least_score_ = 0;
};

// Changes to the layer of a net that makes detections before the model is made.
struct DecoderChanges {
  std::optional<double> confidence;  // confidence_threshold; empty: unchanged
  std::optional<double> nms;         // nms_threshold: overlap above which the worse box is dropped
};

// Applies the changes and prevents the layer from writing files. Throws kInvalidArgument unless the
// net has exactly one such layer.
void ConfigureDecoder(const DecoderChanges& changes, NetFile* net);

// Throws kInvalidArgument if there are ten crops, of which a detector would find boxes in each.
void RefuseTenCrops(const Preprocessing& preprocessing);

// Returns true if a layer makes detections.
bool HasDecoder(const NetParameter& net);

// Appends the layers of `tail` to `net`: a decoder for a net that ends in raw boxes and scores.
NetFile WithTail(NetFile net, const NetFile& tail);

}  // namespace crema
