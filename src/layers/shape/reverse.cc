// Reverse: the elements of an axis in the opposite order. So is its gradient.
#include <memory>

#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Reverse final : public ElementMove {
 public:
  using ElementMove::ElementMove;

  LayerInfo Infer(const InferContext& context) const override {
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    info.reach = ReachFromAxis(Axis(context.inputs[0].shape));
    info.moves_only = true;
    return info;
  }

  StridedBlock Move(const Shape& shape) const override {
    const int reversed = Axis(shape);
    StridedBlock block;
    for (int a = 0; a < shape.axes(); ++a) {
      const int64_t stride = shape.count(a + 1);
      block.Add(shape[a], a == reversed ? -stride : stride, stride);
      if (a == reversed && shape[a] > 0) block.from = (shape[a] - 1) * stride;
    }
    return block;
  }

 private:
  int Axis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().reverse_param().axis(), "reverse_param.axis");
  }
};

}  // namespace

void RegisterReverse(Registry& registry) {
  LayerType type;
  type.name = "Reverse";
  type.traits.fits_16_bits = true;
  type.category = "shape";
  type.summary = "Reverses an axis, such as the steps of a sequence (CTPN).";
  type.formula = "y[i, j, k] = x[i, J - 1 - j, k] for the axis of j";
  type.input_docs = {"x: any shape that has the axis"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "CTPN";
  type.param_fields = {"reverse_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Reverse>(p); };
  type.samples = {
      {.name = "steps", .inputs = {{.shape = {5, 2, 3}}}},
      {.name = "middle", .prototxt = "reverse_param { axis: 1 }", .inputs = {{.shape = {2, 4, 3}}}},
      {.name = "last", .prototxt = "reverse_param { axis: -1 }", .inputs = {{.shape = {2, 3, 4}}}},
      {.name = "one", .prototxt = "reverse_param { axis: 1 }", .inputs = {{.shape = {2, 1, 4}}}},
      {.name = "empty", .prototxt = "reverse_param { axis: 1 }", .inputs = {{.shape = {2, 0, 4}}}},
  };
  type.bad_samples = {{"reverse_param { axis: 2 }", {{2, 3}}, "axis 2 is outside"}};
  registry.Add(std::move(type));
}

}  // namespace crema
