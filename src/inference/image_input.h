// Pictures into the one input of a deploy net.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "data/image/image.h"
#include "format/prototxt.h"

namespace crema {

// What happens to a pixel v: ((invert ? 255 - v : v) - mean) * scale.
struct Preprocessing {
  bool invert = false;
  float scale = 1;
  std::vector<float> mean;  // one a channel; or one for each element of the input; or none
  bool rgb = false;         // the net takes red, green, blue; else blue, green, red
};

// A net that reads a data set or computes a loss from labels is told before it is planned, when it
// would fail for the lack of just these. Throws kInvalidArgument.
void RefuseTrainingNet(const NetFile& net, const NetState& state);

// The numbers of --mean and its like from a BlobProto file, for an input C x H x W of these
// extents: as they are when they have its size, one a channel otherwise. Throws kInvalidArgument
// when the number of channels differs.
std::vector<float> ReadMean(const std::string& path, const Shape& input);

// Resizes an image to the input C x H x W, `values`, and writes it there. Requires: as many
// channels, a mean that fits.
void FillImageInput(const Image& image, const Preprocessing& preprocessing, int height, int width,
                    std::span<float> values);
// The same of an image file, into an input 1 x C x H x W, C 1 (gray) or 3. `name` begins the
// message. Throws kDataLoss where it is broken. Requires: a mean that fits.
void FillImageInput(std::string_view bytes, const std::string& name,
                    const Preprocessing& preprocessing, const TensorView& input);

}  // namespace crema
