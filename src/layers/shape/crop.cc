// Crop: the part of input 0, from `axis` on, that has the extents of input 1 and starts at the
// offsets. The gradient is 0 outside of that part; input 1 is only asked for its shape,
// so its gradient is 0.
#include <algorithm>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/shape/crop_part.h"
#include "layers/zero_gradient.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 14;  // elements that pay for a thread

class Crop final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& whole = context.inputs[0].shape;
    const Shape& wanted = context.inputs[1].shape;
    if (whole.axes() != wanted.axes()) {
      FailInputs(*this, StrCat("the inputs need the same number of axes, but their shapes are ",
                               ToString(whole), " and ", ToString(wanted)));
    }
    const int axis = CropAxis(*this, whole);
    const int given = param().crop_param().offset_size();
    if (given > 1 && given != whole.axes() - axis) {
      FailField(*this, "crop_param.offset",
                StrCat("there are ", given, " offsets for ", whole.axes() - axis,
                       " axes that are cropped; give none, one for all, or one each"));
    }
    std::vector<int64_t> dims(whole.dims().begin(), whole.dims().end());
    for (int a = axis; a < whole.axes(); ++a) {
      dims[static_cast<size_t>(a)] = wanted[a];
      if (CropOffset(*this, a, axis) + wanted[a] <= whole[a]) continue;
      FailInputs(*this,
                 StrCat("offset ", CropOffset(*this, a, axis), " and extent ", wanted[a],
                        " reach beyond axis ", a, " of the input of shape ", ToString(whole)));
    }
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.moves_only = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const CropPart part = MakeCropPart(*this, args.inputs[0].shape(), args.outputs[0].shape());
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      CopyStrided(args.context.threads(), part.block, args.inputs[0].data<T>() + part.first,
                  args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    ZeroGradients(args.input_grads.subspan(1));
    const TensorView& dx = args.input_grads[0];
    if (dx.empty()) return;
    const ConstTensorView& dy = args.output_grads[0];
    const CropPart part = MakeCropPart(*this, dx.shape(), dy.shape());
    DispatchFloat(dx.dtype(), [&]<typename T>(T) {
      T* grad = dx.data<T>();
      ParallelFor(args.context.threads(), dx.count(), kGrain,
                  [&](int64_t b, int64_t e, int) { std::fill(grad + b, grad + e, T(0)); });
      CopyStrided(args.context.threads(), part.block.Reversed(), dy.data<T>(), grad + part.first);
    });
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
  type.summary = "Cuts a blob to the extents of another one.";
  type.formula = "y[i, j, ..] = x[i + offset_i, j + offset_j, ..]";
  type.input_docs = {"x: any shape with the axis",
                     "reference: as many axes; its extents from `axis` on are the wanted ones"};
  type.output_docs = {"y: the extents of x before `axis`, those of the reference from there on"};
  type.param_fields = {"crop_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Crop>(p); };
  type.samples = Samples();
  const std::vector<std::vector<int64_t>> shapes = {{1, 1, 5, 5}, {1, 1, 3, 3}};
  type.bad_samples = {
      {.prototxt = "crop_param { offset: 3 }", .input_shapes = shapes, .expect = "offset 3 and"},
      {.prototxt = "crop_param { offset: 4294967295 }",
       .input_shapes = shapes,
       .expect = "offset 4294967295 and"},
      {.prototxt = "crop_param { axis: 1 offset: 0 offset: 0 }",
       .input_shapes = shapes,
       .expect = "2 offsets for 3 axes"},
      {.prototxt = "crop_param { axis: 4 }", .input_shapes = shapes, .expect = "axis 4 is outside"},
      {.prototxt = "", .input_shapes = {{1, 1, 5, 5}, {3, 3}}, .expect = "same number of axes"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
