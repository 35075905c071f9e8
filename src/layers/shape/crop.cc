// Crop: the part of input 0 that starts at the offsets and has, from `axis` on, the dimensions of
// input 1. The gradient is 0 outside that part. Only the shape of input 1 is used, so its gradient
// is 0.
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Crop final : public MovingLayer {
 public:
  using MovingLayer::MovingLayer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& whole = context.inputs[0].shape;
    const Shape& wanted = context.inputs[1].shape;
    if (whole.axes() != wanted.axes()) {
      FailInputs(*this, StrCat("the inputs need the same number of axes, but their shapes are ",
                               ToString(whole), " and ", ToString(wanted)));
    }
    const int axis = FirstAxis(whole);
    const int given = param().crop_param().offset_size();
    if (given > 1 && given != whole.axes() - axis) {
      FailField(*this, "crop_param.offset",
                StrCat("there are ", given, " offsets for ", whole.axes() - axis,
                       " axes that are cropped; give none, one for all, or one each"));
    }
    std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
    for (int a = axis; a < whole.axes(); ++a) {
      dims[static_cast<size_t>(a)] = wanted[a];
      if (Offset(a, axis) + wanted[a] <= whole[a]) continue;
      FailInputs(*this,
                 StrCat("offset ", Offset(a, axis), " and size ", wanted[a], " reach beyond axis ",
                        a, " of the input of shape ", ToString(whole)));
    }
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    return info;
  }

  void MoveForward(const Mover& mover, const ForwardArgs& args) const override {
    const ConstTensorView& x = args.inputs[0];
    mover.Copy(Part(x.shape(), args.outputs[0].shape()), x, args.outputs[0]);
  }

  void MoveBackward(const Mover& mover, const BackwardArgs& args) const override {
    for (const TensorView& grad : args.input_grads) {
      if (!grad.empty()) mover.Zero(grad);
    }
    const TensorView& dx = args.input_grads[0];
    if (dx.empty()) return;
    const ConstTensorView& dy = args.output_grads[0];
    mover.Copy(Part(dx.shape(), dy.shape()).Reversed(), dy, dx);
  }

 private:
  int FirstAxis(const Shape& shape) const {
    return LayerAxis(*this, shape, param().crop_param().axis(), "crop_param.axis");
  }

  int64_t Offset(int axis, int first_axis) const {
    const CropParameter& crop = param().crop_param();
    if (crop.offset_size() == 0) return 0;
    return crop.offset(crop.offset_size() == 1 ? 0 : axis - first_axis);
  }

  // Returns the block that copies from the whole to the part.
  StridedBlock Part(const Shape& whole, const Shape& part) const {
    StridedBlock block;
    const int axis = FirstAxis(whole);
    for (int a = 0; a < whole.axes(); ++a) {
      block.Add(part[a], whole.count(a + 1), part.count(a + 1));
      if (a >= axis) block.from += Offset(a, axis) * whole.count(a + 1);
    }
    return block;
  }
};

std::vector<LayerSample> Samples() {
  const SampleInput input{.shape = {2, 3, 6, 7}};
  const SampleInput size{.shape = {2, 3, 4, 2}};
  return {
      {.name = "offsets",
       .prototxt = "crop_param { axis: 2 offset: 1 offset: 3 }",
       .inputs = {input, size}},
      {.name = "default", .prototxt = "", .inputs = {input, size}},
      {.name = "one_offset",
       .prototxt = "crop_param { offset: 2 }",
       .inputs = {input, {.shape = {1, 1, 4, 5}}}},
      {.name = "all_axes",
       .prototxt = "crop_param { axis: 0 offset: 1 offset: 0 offset: 2 offset: 0 }",
       .inputs = {input, {.shape = {1, 2, 3, 7}}}},
      {.name = "five_axes",
       .prototxt = "crop_param { axis: -3 offset: 1 offset: 0 offset: 2 }",
       .inputs = {{.shape = {1, 2, 4, 3, 5}}, {.shape = {9, 9, 2, 3, 2}}}},
      {.name = "large",
       .prototxt = "crop_param { axis: 1 offset: 3 }",
       .inputs = {{.shape = {3, 20001}}, {.shape = {3, 19000}}}},
      {.name = "whole", .prototxt = "", .inputs = {input, input}},
      {.name = "empty",
       .prototxt = "crop_param { axis: 0 }",
       .inputs = {{.shape = {2, 3}}, {.shape = {0, 2}}}},
  };
}

}  // namespace

void RegisterCrop(Registry& registry) {
  LayerType type;
  type.name = "Crop";
  type.traits = {.fits_16_bits = true};
  type.category = "shape";
  type.summary = "Cuts a blob to the shape of another one.";
  type.formula = "y[i, j, ..] = x[i + offset_i, j + offset_j, ..]";
  type.input_docs = {"x: any shape with the axis",
                     "reference: as many axes; its shape from `axis` on is that of y"};
  type.output_docs = {"y: the shape of x before `axis`, that of the reference from `axis` on"};
  type.param_fields = {"crop_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Crop>(p); };
  type.samples = Samples();
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 5, 5}, {1, 1, 3, 3}};
  type.bad_samples = {
      {"crop_param { offset: 3 }", shapes, "offset 3 and"},
      {"crop_param { offset: 4294967295 }", shapes, "offset 4294967295 and"},
      {"crop_param { axis: 1 offset: 0 offset: 0 }", shapes, "2 offsets for 3 axes"},
      {"crop_param { axis: 4 }", shapes, "axis 4 is outside"},
      {"", {{1, 1, 5, 5}, {3, 3}}, "same number of axes"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
