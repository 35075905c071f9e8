// Pictures into the one input of a deploy net; what classifier and detector share.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "data/image/image.h"
#include "format/prototxt.h"
#include "graph/plan.h"

namespace crema {

// What happens to a pixel v: ((invert ? 255 - v : v) - mean) * scale.
struct Preprocessing {
  bool invert = false;
  float scale = 1;
  std::vector<float> mean;  // one a channel; or one for each element of the input; or none
  bool rgb = false;         // the net takes red, green, blue; else blue, green, red
};

// The net with a batch of one: images are worked on one by one, whatever the text says.
NetParameter ForOneImage(const NetParameter& net);

// A net that reads a data set or computes a loss from labels is told before it is planned, when it
// would fail for the lack of just these. Throws kInvalidArgument.
void RefuseTrainingNet(const NetFile& net, const NetState& state);

// The one Input blob of a deploy net. `task` is for messages ("classification"). Throws
// kInvalidArgument for a training net, and for several inputs.
std::string FindImageInput(const Plan& plan, const std::string& file, const std::string& task);

// Decodes an image file, resizes it to the input, and writes it there. Returns its own size.
// Throws kDataLoss (`name` begins the message). Requires: an input 1 x 1 or 3 x H x W.
struct PictureSize {
  int height = 0;
  int width = 0;
};
PictureSize FillImageInput(const std::string& bytes, const std::string& name,
                           const Preprocessing& preprocessing, const TensorView& input);

}  // namespace crema
