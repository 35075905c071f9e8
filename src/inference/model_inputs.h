// Finds and reshapes the Input blobs of a net.
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
  int layer = 0;  // index in the net
  int top = 0;    // index in that layer
};

// Returns the inputs in the order of the net, for the layers that `state` admits.
std::vector<InputBlob> FindInputs(const NetParameter& net, const NetState& state);

// Requires: inputs returned by FindInputs, as many shapes, and Input layers with one shape or one
// per top (as planning ensures).
void SetInputShapes(std::span<const InputBlob> inputs, std::span<const Shape> shapes,
                    NetParameter* net);

}  // namespace crema
