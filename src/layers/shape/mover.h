// Layers that only move elements: each has one body for the CPU and for GPUs.
#pragma once

#include "graph/layer.h"
#include "layers/shape/strided_block.h"

namespace crema {

// Moves elements on one device. The views of a call have one type. Thread safety: that of the
// context it works in.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual void Zero(const TensorView& to) const = 0;
  // The places may not overlap.
  virtual void Copy(const StridedBlock& block, const ConstTensorView& from,
                    const TensorView& to) const = 0;
  // to = the sum of `tiles` runs of `row` elements that follow each other in `from`, for each run
  // of `row` elements of `to`.
  virtual void SumTiles(int64_t row, int64_t tiles, const ConstTensorView& from,
                        const TensorView& to) const = 0;
  // The shape of a blob as it lies in memory: in channels last, rows x channels.
  virtual Shape Stored(const Shape& shape) const { return shape; }
};

class MovingLayer : public Layer {
 public:
  using Layer::Layer;
  void Forward(const ForwardArgs& args) const final;
  void Backward(const BackwardArgs& args) const final;

  virtual void MoveForward(const Mover& mover, const ForwardArgs& args) const = 0;
  virtual void MoveBackward(const Mover& mover, const BackwardArgs& args) const = 0;
};

// A layer whose output is its input under a StridedBlock that covers both.
class ElementMove : public MovingLayer {
 public:
  using MovingLayer::MovingLayer;
  void MoveForward(const Mover& mover, const ForwardArgs& args) const final;
  void MoveBackward(const Mover& mover, const BackwardArgs& args) const final;

  // From an input of this shape into the output.
  virtual StridedBlock Move(const Shape& input) const = 0;
};

}  // namespace crema
