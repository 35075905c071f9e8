// Windows of convolutions and poolings over the spatial axes.
#pragma once

#include <cstdint>
#include <vector>

#include "onnx/import_node.h"

namespace crema {

// One entry for each spatial axis.
struct Windows {
  std::vector<int64_t> kernel, stride, dilation, before, after;

  size_t axes() const { return kernel.size(); }
  // The part of an axis that one window covers.
  int64_t Reach(size_t axis) const { return dilation[axis] * (kernel[axis] - 1) + 1; }
  bool IsSymmetric() const { return before == after; }
};

// Returns the windows that the attributes of a node describe, with auto_pad resolved for an input
// of N x C x spatial axes. `kernel` is the default of kernel_shape. Refuses the node if they are
// wrong.
Windows WindowsOf(const NodeImport& node, const Shape& input, std::vector<int64_t> kernel);

}  // namespace crema
