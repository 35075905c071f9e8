// The Input blobs of a net, and the net with other extents of them.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"

namespace crema {

// A top of an Input layer.
struct InputBlob {
  std::string name;
  int layer = 0;  // of the net
  int top = 0;    // of that layer
};

// In the order of the net, of the layers that `state` admits.
std::vector<InputBlob> FindInputs(const NetParameter& net, const NetState& state);

// Requires: inputs as FindInputs gave them, as many shapes, and one shape or one a top in the text
// of each Input layer (what was planned has that).
void SetInputShapes(std::span<const InputBlob> inputs, std::span<const Shape> shapes,
                    NetParameter* net);

}  // namespace crema
