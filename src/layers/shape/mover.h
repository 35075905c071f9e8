// Layers that only move elements. Each has one body for the CPU and the GPU.
#pragma once

#include <cstddef>
#include <span>

#include "graph/layer.h"
#include "layers/shape/strided_block.h"
#include "math/broadcast_map.h"

namespace crema {

// Moves elements on one device. The views of a call have one type. Thread safety: that of its
// context.
class Mover {
 public:
  virtual ~Mover() = default;
  virtual void Zero(const TensorView& to) const = 0;
  // `from` and `to` must not overlap.
  virtual void Copy(const StridedBlock& block, const ConstTensorView& from,
                    const TensorView& to) const = 0;
  // Sums the elements of `from` that each element of `to` is repeated to: `map` has `to` as operand
  // 0 and `from` as the result. The CPU needs FoldScratch<double> bytes of scratch.
  virtual void SumRepeated(const BroadcastMap& map, const ConstTensorView& from,
                           const TensorView& to, std::span<std::byte> scratch) const = 0;
  // Returns the shape of a blob in memory: rows x channels in channels last.
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

// A layer whose output is its input rearranged by a StridedBlock that covers both.
class ElementMove : public MovingLayer {
 public:
  using MovingLayer::MovingLayer;
  void MoveForward(const Mover& mover, const ForwardArgs& args) const final;
  void MoveBackward(const Mover& mover, const BackwardArgs& args) const final;

  // Returns the block that copies an input of this shape to the output.
  virtual StridedBlock Move(const Shape& input) const = 0;
};

// A layer whose output is its input repeated along axes, each a whole number of times, after axes
// of size 1 that are added before the first.
class RepeatingLayer : public MovingLayer {
 public:
  using MovingLayer::MovingLayer;
  void MoveForward(const Mover& mover, const ForwardArgs& args) const final;
  void MoveBackward(const Mover& mover, const BackwardArgs& args) const final;
  size_t BackwardScratch(const InferContext& context, const LayerInfo& info,
                         int threads) const final;
};

}  // namespace crema
