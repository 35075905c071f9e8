// Shows a net's input sample as a small picture.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/image/png.h"
#include "runtime/session.h"

namespace crema::tools {

class SamplePicture {
 public:
  // Uses the first output of layer `data_layer`, or, if that is -1 or returns no images, of the
  // first data layer that does.
  SamplePicture(const Plan& plan, int data_layer);

  // Returns false if no data layer returns images.
  bool exists() const { return !blob_.empty(); }
  const std::string& blob() const { return blob_; }
  int layer() const { return layer_; }  // index in the plan
  // Returns sample `index` of the last batch, with mean and scale undone. Requires: exists().
  Picture Pixels(const Session& session, int64_t index) const;
  // Returns the same as a PNG file, scaled to at most 128 pixels per side.
  std::string Png(const Session& session, int64_t index) const;

 private:
  // For a batch of bytes: only converts BGR to RGB.
  static Picture Bytes(const ConstTensorView& blob, int64_t index);

  std::string blob_;
  int value_ = -1;  // index in the plan
  int layer_ = -1;
  float scale_ = 1;
  std::vector<float> means_;  // per channel
};

// Averages blocks of pixels until no side exceeds `side`.
Picture Shrink(const Picture& picture, int side);

}  // namespace crema::tools
