// Slice: cuts a blob along an axis into one piece for each output, at the slice points or into
// equal pieces. The gradient of the input joins those of the pieces.
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/shape/axis_parts.h"

namespace crema {
namespace {

class Slice final : public MovingLayer {
 public:
  explicit Slice(const LayerParameter& param) : MovingLayer(param) {
    const SliceParameter& slice = param.slice_param();
    if (slice.has_axis() && slice.has_slice_dim()) {
      FailField(*this, "slice_param.slice_dim",
                "axis and slice_dim say the same thing; give one of them (axis is the newer)");
    }
    int64_t before = 0;
    for (uint32_t point : slice.slice_point()) {
      if (point <= before) {
        FailField(
            *this, "slice_param.slice_point",
            StrCat("slice points must be above 0 and ascend, but ", point, " follows ", before));
      }
      before = point;
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const int axis = SliceAxis(*this, shape);
    LayerInfo info;
    for (int64_t size : Sizes(shape, axis, context.output_count)) {
      info.outputs.push_back({shape.With(axis, size), context.inputs[0].dtype});
    }
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    info.view = context.output_count == 1;
    info.any_format = axis <= 1;
    return info;
  }

  void MoveForward(const Mover& mover, const ForwardArgs& args) const override {
    const ConstTensorView& whole = args.inputs[0];
    CutParts(mover, SliceAxis(*this, whole.shape()), whole, args.outputs, args.outputs);
  }

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    const TensorView& whole = args.input_grads[0];
    JoinParts(mover, SliceAxis(*this, whole.shape()), args.output_grads, whole);
  }

 private:
  // Returns the sizes of the pieces along the axis.
  std::vector<int64_t> Sizes(const Shape& shape, int axis, size_t count) const {
    const SliceParameter& slice = param().slice_param();
    const auto pieces = static_cast<int64_t>(count);
    const int64_t whole = shape[axis];
    if (slice.slice_point_size() == 0) {
      if (whole % pieces != 0) {
        FailInputs(*this, StrCat("axis ", axis, " of the input of shape ", ToString(shape),
                                 " cannot be cut into ", pieces,
                                 " equal pieces; give slice_point, or other tops"));
      }
      return std::vector<int64_t>(count, whole / pieces);
    }
    if (slice.slice_point_size() != pieces - 1) {
      FailField(*this, "slice_param.slice_point",
                StrCat(slice.slice_point_size(), " slice points make ",
                       slice.slice_point_size() + 1, " pieces, but there are ", pieces, " tops"));
    }
    std::vector<int64_t> sizes;
    int64_t before = 0;
    for (int64_t point : slice.slice_point()) {
      sizes.push_back(point - before);
      before = point;
    }
    if (before > whole) {
      FailField(*this, "slice_param.slice_point",
                StrCat("slice point ", before, " is after the end of axis ", axis,
                       " of the input of shape ", ToString(shape)));
    }
    sizes.push_back(whole - before);
    return sizes;
  }
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 6, 4}};
  return {
      {.name = "points",
       .prototxt = "slice_param { axis: 1 slice_point: 1 slice_point: 4 }",
       .inputs = {input},
       .outputs = 3},
      {.name = "equal", .prototxt = "", .inputs = {input}, .outputs = 3},
      {.name = "axis_0", .prototxt = "slice_param { axis: 0 }", .inputs = {input}, .outputs = 2},
      {.name = "negative_axis",
       .prototxt = "slice_param { axis: -1 slice_point: 3 }",
       .inputs = {input},
       .outputs = 2},
      {.name = "slice_dim",
       .prototxt = "slice_param { slice_dim: 2 }",
       .inputs = {input},
       .outputs = 2},
      {.name = "one", .prototxt = "", .inputs = {input}},
      {.name = "last_piece_is_empty",
       .prototxt = "slice_param { slice_point: 6 }",
       .inputs = {input},
       .outputs = 2},
      {.name = "large",
       .prototxt = "slice_param { slice_point: 7 }",
       .inputs = {{.shape = {3, 20001}}},
       .outputs = 2},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 4}}}, .outputs = 2},
  };
}

}  // namespace

void RegisterSlice(Registry& registry) {
  LayerType type;
  type.name = "Slice";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Cuts a blob into pieces along an axis.";
  type.formula = "y_i = x[.., point_i .. point_(i+1) - 1, ..] along axis";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"y_i: the shape of x with its piece of the axis"};
  type.param_fields = {"slice_param"};
  type.outputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Slice>(p); };
  type.samples = Samples();
  const auto bad = [](const char* fields, const char* expect, int outputs) {
    return BadSample{std::string("slice_param { ") + fields + " }", {{2, 6}}, expect, outputs};
  };
  type.bad_samples = {
      bad("axis: 1 slice_dim: 1", "give one of them", 2),
      bad("axis: 2", "axis 2 is outside", 2),
      bad("slice_point: 0", "above 0 and ascend", 2),
      bad("slice_point: 3 slice_point: 3", "3 follows 3", 3),
      bad("slice_point: 3", "1 slice points make 2 pieces, but there are 3", 3),
      bad("slice_point: 7", "slice point 7 is after the end", 2),
      bad("", "into 4 equal pieces", 4),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
