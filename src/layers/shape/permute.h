// Permute and Transpose; see permute.cc.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "layers/layer_axis.h"
#include "layers/shape/strided_block.h"

namespace crema {

// The axes that the text gives, in whichever field the type has.
struct GivenOrder {
  std::string field;
  std::vector<int64_t> axes;
};

class Permute final : public Layer {
 public:
  Permute(const LayerParameter& param, GivenOrder (*given)(const Layer&))
      : Layer(param), given_(given(*this)) {}

  LayerInfo Infer(const InferContext& context) const override;
  void Forward(const ForwardArgs& args) const override;
  void Backward(const BackwardArgs& args) const override;

  // From the input into the output.
  StridedBlock Block(const Shape& from, const Shape& to) const {
    StridedBlock block;
    const AxisOrder order = Order(from);
    for (int j = 0; j < to.axes(); ++j) {
      block.Add(to[j], from.count(order[static_cast<size_t>(j)] + 1), to.count(j + 1));
    }
    return block;
  }

 private:
  using AxisOrder = std::array<int, Shape::kMaxAxes>;

  // The input axis of each output axis; those that are not given follow in their order.
  AxisOrder Order(const Shape& shape) const {
    AxisOrder order{};
    size_t size = 0;
    std::array<bool, Shape::kMaxAxes> taken{};
    for (int64_t given : given_.axes) {
      const int axis = LayerAxis(*this, shape, given, given_.field);
      if (taken[static_cast<size_t>(axis)]) {
        FailField(*this, given_.field, StrCat("axis ", given, " is given twice"));
      }
      taken[static_cast<size_t>(axis)] = true;
      order[size++] = axis;
    }
    for (int axis = 0; axis < shape.axes(); ++axis) {
      if (!taken[static_cast<size_t>(axis)]) order[size++] = axis;
    }
    return order;
  }

  const GivenOrder given_;
};

}  // namespace crema
