// Gather and BatchReindex: select entries along an axis of input 0 by the indices in input 1.
#pragma once

#include <string_view>

#include "layers/arithmetic/picks.h"

namespace crema {

class GatherLayer : public Layer {
 public:
  using Layer::Layer;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;

  GatherSize SizesOf(const Shape& x, int64_t picked) const {
    const int axis = Axis(x);
    return {x.count(0, axis), x[axis], picked, x.count(axis + 1), FromEnd()};
  }

 protected:
  // Returns the axis. Throws if input 0 does not have it.
  virtual int Axis(const Shape& x) const = 0;
  // Returns a name of the entries of the axis, for error messages.
  virtual std::string_view Entries() const = 0;
  // Returns true if negative indices count from the end.
  virtual bool FromEnd() const { return false; }

 private:
  GatherSize CheckedSizes(const Shape& x, const ConstTensorView& index) const;
};

// Returns the picks of a Gather whose mode is not AXIS.
Picks GatherPicks(const Layer& layer, const Shape& x, const Shape& index);

}  // namespace crema
