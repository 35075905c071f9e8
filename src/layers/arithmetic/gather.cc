// Gather: y[o, k.., i] = x[o, index[k..], i], where x is viewed as (axes before `axis`, axis, axes
// after it) and the axes of the index replace `axis`.
// BatchReindex: the same along axis 0, with an index of one axis.
// dx[o, r, i] = sum of dy[o, k.., i] over all k with index[k] = r.
#include "layers/arithmetic/gather.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"

namespace crema {

GatherSize GatherLayer::CheckedSizes(const Shape& x, const ConstTensorView& index) const {
  const GatherSize sizes = SizesOf(x, index.count());
  CheckIndices(*this, index, 1, sizes.rows, Entries());
  return sizes;
}

void GatherLayer::Forward(const ForwardArgs& args) const {
  const GatherSize sizes = CheckedSizes(args.inputs[0].shape(), args.inputs[1]);
  DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
    GatherRows(args.context.threads(), sizes, args.inputs[1].data<T>(), args.inputs[0].data<T>(),
               args.outputs[0].data<T>());
  });
}

void GatherLayer::Backward(const BackwardArgs& args) const {
  const TensorView& dx = args.input_grads[0];
  const GatherSize sizes = CheckedSizes(dx.shape(), args.inputs[1]);
  DispatchFloat(dx.dtype(), [&]<typename T>(T) {
    std::fill_n(dx.data<T>(), dx.count(), T(0));
    ScatterAddRows(args.context.threads(), sizes, args.inputs[1].data<T>(),
                   args.output_grads[0].data<T>(), dx.data<T>());
  });
}

namespace {

class Gather final : public GatherLayer {
 public:
  using GatherLayer::GatherLayer;

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

 protected:
  int Axis(const Shape& x) const override {
    return LayerAxis(*this, x, param().gather_param().axis(), "gather_param.axis");
  }
  std::string_view Entries() const override { return "entries on the axis"; }
};

class BatchReindex final : public GatherLayer {
 public:
  using GatherLayer::GatherLayer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const Shape& index = context.inputs[1].shape;
    if (x.axes() == 0) FailInputs(*this, "the first bottom is a scalar and has no rows");
    if (index.axes() != 1) {
      FailInputs(*this, StrCat("the index is ", ToString(index), ", expected 1 axis"));
    }
    LayerInfo info;
    info.outputs = {{x.With(0, index[0]), context.inputs[0].dtype}};
    info.moves_only = true;
    info.backward_reads_input = {false, true};
    info.gradient_forbidden = {false, true};
    return info;
  }

 protected:
  int Axis(const Shape&) const override { return 0; }
  std::string_view Entries() const override { return "rows"; }
};

}  // namespace

void RegisterGather(Registry& registry) {
  LayerType type;
  type.name = "Gather";
  type.category = "arithmetic";
  type.summary = "Picks entries along one axis by their indices.";
  type.formula = "y[o, k, i] = x[o, index[k], i]; o: axes before axis, i: axes after it";
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
      {"gather_param { axis: 2 }", {{4, 3}, {2}}, "axis 2 is outside"},
      {"", {{}, {2}}, "axis 0 is outside"},
  };
  registry.Add(std::move(type));
}

void RegisterBatchReindex(Registry& registry) {
  LayerType type;
  type.name = "BatchReindex";
  type.category = "arithmetic";
  type.summary = "Picks, repeats and reorders the items of a batch.";
  type.formula = "y[i] = x[index[i]]";
  type.input_docs = {"x: N x ..., any number of axes from 1",
                     "index: M whole numbers 0..N-1; receives no gradient"};
  type.output_docs = {"y: M x ..., the other axes as those of x"};
  type.differences = {"An index that is not a whole number is an error; Caffe truncates it."};
  type.inputs = {2, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const BatchReindex>(p); };
  const auto index = [](int64_t count, double most) {
    return SampleInput{.shape = {count}, .low = 0, .high = most, .integer = true};
  };
  type.samples = {
      {.name = "plain", .prototxt = "", .inputs = {{.shape = {4, 3, 2}}, index(6, 3)}},
      {.name = "fewer", .prototxt = "", .inputs = {{.shape = {5}}, index(2, 4)}},
      {.name = "large", .prototxt = "", .inputs = {{.shape = {7, 6001}}, index(9, 6)}},
      {.name = "none", .prototxt = "", .inputs = {{.shape = {4, 3}}, index(0, 3)}},
      {.name = "empty", .prototxt = "", .inputs = {{.shape = {0, 3}}, index(0, 0)}},
  };
  type.bad_samples = {
      {"", {{4, 3}, {2, 2}}, "the index is 2x2"},
      {"", {{}, {2}}, "is a scalar"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
