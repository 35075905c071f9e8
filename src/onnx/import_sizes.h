// Sizes of inputs that the layers of an imported net depend on.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/shape.h"
#include "crema.pb.h"
#include "onnx/import_graph.h"

namespace crema {

// An axis of an input of the net whose size cannot change.
struct FixedAxis {
  std::string input;
  int axis = 0;
  int64_t size = 0;
};

// Returns a text that is equal for equal layers, or nothing if the graph cannot be converted for
// inputs of these shapes.
using LayersOfShapes =
    std::function<std::optional<std::string>(const std::map<std::string, Shape>&)>;

// Returns true if FindFixedAxes may find some: the file leaves a size open, or the graph reads
// sizes.
bool MayDependOnSizes(const OnnxGraph& graph);

// Returns the axes that must keep the sizes that they have in `shapes`. With another size the
// layers are others than `layers`, or, if the file leaves the size open, there are none. Of the
// sizes that the file gives, it tries only those of the first axes, if the graph reads sizes.
std::vector<FixedAxis> FindFixedAxes(const OnnxGraph& graph,
                                     const std::map<std::string, Shape>& shapes,
                                     const std::string& layers, const LayersOfShapes& layers_of);

// Makes the net refuse other sizes of these axes. A Reshape of an input copies all axes but one, so
// that the numbers of elements differ if this one has another size. Requires: inputs come first.
void FixAxes(const std::vector<FixedAxis>& axes, NetParameter* net);

}  // namespace crema
