// Layers that are one fixed exchange of elements: ShuffleChannel and Reorg.
#pragma once

#include "graph/layer.h"
#include "layers/shape/strided_block.h"

namespace crema {

// Output element = input element under a StridedBlock that covers both blobs.
class ElementMove : public Layer {
 public:
  using Layer::Layer;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;

  // From an input of this shape into the output.
  virtual StridedBlock Move(const Shape& input) const = 0;
};

}  // namespace crema
