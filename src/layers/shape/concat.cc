// Concat: joins the inputs along an axis; all other dimensions are equal.
// The gradient of each input is its part of the output's gradient. A single input is passed on as a
// view.
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/shape/axis_parts.h"
#include "layers/shape/concat_pixels.h"

namespace crema {
namespace {

class Concat final : public MovingLayer {
 public:
  explicit Concat(const LayerParameter& param) : MovingLayer(param) {
    if (param.concat_param().has_axis() && param.concat_param().has_concat_dim()) {
      FailField(*this, "concat_param.concat_dim",
                "axis and concat_dim say the same thing; give one of them (axis is the newer)");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& first = context.inputs[0].shape;
    const int axis = ConcatAxis(*this, first);
    int64_t size = 0;
    for (const BlobSpec& input : context.inputs) {
      if (input.shape.axes() != first.axes() || input.shape.With(axis, 0) != first.With(axis, 0)) {
        FailInputs(*this, StrCat("inputs that are joined along axis ", axis,
                                 " must be equal in all other axes, but their shapes are ",
                                 ToString(first), " and ", ToString(input.shape)));
      }
      size += input.shape[axis];
    }
    LayerInfo info;
    info.outputs = {{first.With(axis, size), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    info.view = context.inputs.size() == 1;
    info.any_format = axis <= 1;
    info.contiguous_concat = first.count(0, axis) == 1;
    info.strided_concat = axis == 1;
    return info;
  }

  void MoveForward(const Mover& mover, const ForwardArgs& args) const override {
    JoinParts(mover, ConcatAxis(*this, args.outputs[0].shape()), args.inputs, args.outputs[0]);
  }

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    const ConstTensorView& whole = args.output_grads[0];
    CutParts(mover, ConcatAxis(*this, whole.shape()), whole, args.inputs, args.input_grads);
  }
};

}  // namespace

void RegisterConcat(Registry& registry) {
  LayerType type;
  type.name = "Concat";
  type.traits = {.fits_16_bits = true, .computes_on_bytes = true};
  type.category = "shape";
  type.summary = "Concatenates blobs along an axis.";
  type.formula = "y = [x_0, x_1, ...] along axis";
  type.input_docs = {"x_i: blobs whose shapes are equal in all axes except `axis`"};
  type.output_docs = {"y: `axis` is as long as those of the inputs together"};
  type.param_fields = {"concat_param"};
  type.inputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Concat>(p); };
  type.implementations = PixelConcatImplementations();
  const SampleInput a{.shape = {2, 3, 4}};
  const SampleInput b{.shape = {2, 1, 4}};
  const SampleInput c{.shape = {2, 5, 4}};
  type.samples = {
      {.name = "channels", .prototxt = "concat_param { axis: 1 }", .inputs = {a, b, c}},
      {.name = "default", .prototxt = "", .inputs = {a, b}},
      {.name = "images",
       .prototxt = "",
       .inputs = {{.shape = {2, 3, 2, 3}}, {.shape = {2, 5, 2, 3}}}},
      {.name = "axis_0",
       .prototxt = "concat_param { axis: 0 }",
       .inputs = {a, {.shape = {1, 3, 4}}}},
      {.name = "negative_axis",
       .prototxt = "concat_param { axis: -1 }",
       .inputs = {a, {.shape = {2, 3, 2}}}},
      {.name = "concat_dim",
       .prototxt = "concat_param { concat_dim: 2 }",
       .inputs = {a, {.shape = {2, 3, 1}}}},
      {.name = "single", .prototxt = "", .inputs = {a}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {3, 5000}}, {.shape = {3, 20001}}}},
      {.name = "one_is_empty", .prototxt = "", .inputs = {a, {.shape = {2, 0, 4}}, b}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 2}}}},
  };
  type.bad_samples = {
      {"concat_param { axis: 1 concat_dim: 1 }", {{2, 3}, {2, 3}}, "give one of them"},
      {"concat_param { axis: 2 }", {{2, 3}, {2, 3}}, "axis 2 is outside"},
      {"concat_param { concat_dim: 4294967295 }", {{2, 3}, {2, 3}}, "axis 4294967295 is outside"},
      {"", {{2, 3, 4}, {2, 3, 5}}, "2x3x4 and 2x3x5"},
      {"", {{2, 3}, {2, 3, 1}}, "2x3 and 2x3x1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
