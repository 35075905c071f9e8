// Gather: y[o, k.., i] = x[o, index[k..], i], where x is seen as (axes before `axis`, axis, axes
// behind it) and the axes of the index take the place of `axis`.
// dx[o, r, i] = sum of dy[o, k.., i] over all k with index[k] = r.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/arithmetic/indices.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

class Gather final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const Shape& index = context.inputs[1].shape;
    const int axis = Axis(x);
    if (x.axes() - 1 + index.axes() > Shape::kMaxAxes) {
      FailInputs(*this, StrCat("bottoms of ", x.axes(), " and ", index.axes(),
                               " axes give a top of more than ", Shape::kMaxAxes));
    }
    std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
    dims.insert(dims.end(), index.dims().begin(), index.dims().end());
    dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(axis);
    info.shared_inputs = {false, true};
    info.moves_only = true;
    info.backward_reads_input = {false, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const GatherSize extent = SizesOf(args.inputs[0].shape(), args.inputs[1].count());
    CheckIndices(*this, args.inputs[1], 1, extent.rows, "entries on the axis");
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      GatherRows(args.context.threads(), extent, args.inputs[1].data<T>(), args.inputs[0].data<T>(),
                 args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& x = args.inputs[0].shape();
    const GatherSize extent = SizesOf(x, args.inputs[1].count());
    CheckIndices(*this, args.inputs[1], 1, extent.rows, "entries on the axis");
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      T* dx = args.input_grads[0].data<T>();
      std::fill_n(dx, x.count(), T(0));
      ScatterAddRows(args.context.threads(), extent, args.inputs[1].data<T>(),
                     args.output_grads[0].data<T>(), dx);
    });
  }

 private:
  int Axis(const Shape& x) const {
    return LayerAxis(*this, x, param().gather_param().axis(), "gather_param.axis");
  }
  GatherSize SizesOf(const Shape& x, int64_t picked) const {
    const int axis = Axis(x);
    return {x.count(0, axis), x[axis], picked, x.count(axis + 1)};
  }
};

}  // namespace

void RegisterGather(Registry& registry) {
  LayerType type;
  type.name = "Gather";
  type.category = "arithmetic";
  type.summary = "Picks entries along one axis by their numbers.";
  type.formula = "y[o, k, i] = x[o, index[k], i]; o: axes before axis, i: axes behind it";
  type.input_docs = {"x: any number of axes from 1",
                     "index: whole numbers 0..x.shape[axis]-1, any shape; receives no gradient"};
  type.output_docs = {"y: the shape of x with axis replaced by the axes of index"};
  type.origin = "Crema";
  type.param_fields = {"gather_param"};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Gather>(p); };
  const auto index = [](std::vector<int64_t> shape, double most) {
    return SampleInput{.shape = std::move(shape), .low = 0, .high = most, .integer = true};
  };
  type.samples = {
      {.name = "rows", .prototxt = "", .inputs = {{.shape = {4, 3, 2}}, index({2, 3}, 3)}},
      {.name = "middle",
       .prototxt = "gather_param { axis: 1 }",
       .inputs = {{.shape = {4, 3, 2}}, index({5}, 2)}},
      {.name = "last",
       .prototxt = "gather_param { axis: -1 }",
       .inputs = {{.shape = {4, 3, 6}}, index({2, 2}, 5)}},
      {.name = "one",
       .prototxt = "gather_param { axis: 1 }",
       .inputs = {{.shape = {2, 3, 4}}, index({}, 2)}},
      {.name = "large",
       .prototxt = "gather_param { axis: 1 }",
       .inputs = {{.shape = {5, 7, 3001}}, index({4}, 6)}},
      {.name = "none", .prototxt = "", .inputs = {{.shape = {4, 3}}, index({0}, 3)}},
      {.name = "empty_batch",
       .prototxt = "gather_param { axis: 1 }",
       .inputs = {{.shape = {0, 3}}, index({2}, 2)}},
  };
  type.bad_samples = {
      {.prototxt = "gather_param { axis: 2 }",
       .input_shapes = {{4, 3}, {2}},
       .expect = "axis 2 is outside"},
      {.prototxt = "", .input_shapes = {{}, {2}}, .expect = "axis 0 is outside"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
