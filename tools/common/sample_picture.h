// What the net saw of a sample, as a small picture.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "common/png.h"
#include "runtime/session.h"

namespace crema::tools {

class SamplePicture {
 public:
  // Takes the pixels from the first output of layer `data_layer`, or of the first data layer that
  // gives images when that is -1 or gives none.
  SamplePicture(const Plan& plan, int data_layer);

  // No images, no pictures.
  bool exists() const { return !blob_.empty(); }
  const std::string& blob() const { return blob_; }
  int layer() const { return layer_; }  // of the plan
  // Sample `index` of the last batch, mean and scale undone. Requires: exists().
  Picture Pixels(const Session& session, int64_t index) const;
  // The same as a PNG file, no side longer than 128 pixels.
  std::string Png(const Session& session, int64_t index) const;

 private:
  // Of a batch of bytes: only blue, green and red turn round.
  static Picture Bytes(const ConstTensorView& blob, int64_t index);

  std::string blob_;
  int value_ = -1;  // of the plan
  int layer_ = -1;
  float scale_ = 1;
  std::vector<float> means_;  // a channel
};

// Averages blocks of pixels until no side is longer than `side`.
Picture Shrink(const Picture& picture, int side);

}  // namespace crema::tools
