// Detectors of regions, Faster R-CNN and R-FCN: a layer Proposal proposes regions, and further
// outputs of the net give each of them scores and a box for each class.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "crema.pb.h"
#include "format/prototxt.h"
#include "inference/detection_heads.h"
#include "inference/model.h"

namespace crema {

class ImageModel;

// Returns the input from which the only Proposal of a net reads height, width and scale of the
// image ("im_info"). Empty: there is no such layer.
std::string FindSizesInput(const NetParameter& net);

// Writes height, width and scale, as Proposal reads them. Requires: f32, three elements.
void SetSizes(int64_t height, int64_t width, double scale, const TensorView& sizes);
// Writes those of an image in the size of the net's text if `input` is FindSizesInput.
void SetSizesIfThose(const Model& model, const std::string& input, const TensorView& value);

// Prepares a net with such an input for detection: makes its regions an output, and lets the input
// take the size of the image, as py-faster-rcnn does, unless `card` has another fit. Leaves other
// nets.
void PrepareRegionNet(NetFile* net, ModelCard* card);

// Returns true if a blob has the values of a layer of this type, only moved.
bool IsMovedFrom(const NetParameter& net, const std::string& blob, std::string_view type);

// Decodes the outputs of a detector of regions. Thread safety: const.
class RegionHead {
 public:
  // Returns nothing if the net has no such outputs.
  static std::optional<RegionHead> Find(const ImageModel& model);
  // Says which outputs Find looks for, and which there are. Requires: FindSizesInput.
  static std::string Explain(const ImageModel& model);

  // Regions, scores and boxes.
  const std::vector<std::string>& outputs() const { return outputs_; }
  int classes() const { return classes_; }  // background included

  // Returns the objects in an image of height x width with scores above `least`, best first,
  // without those that overlap a better one of their class by more than `overlap`. Boxes are in
  // pixels of the image, both end pixels included, as those of py-faster-rcnn. Requires: the values
  // of outputs() for this image alone.
  std::vector<HeadObject> Decode(std::span<const std::span<const float>> values, int height,
                                 int width, const ImagePlacement& place, double least,
                                 const std::optional<double>& overlap) const;

 private:
  std::vector<std::string> outputs_;
  int classes_ = 0;
  bool one_box_ = false;  // for all classes: R x 8, of the background and of any object
};

}  // namespace crema
