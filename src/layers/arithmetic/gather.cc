// Gather: negative indices count from the end of their axis. The modes are ONNX's Gather,
// GatherElements and GatherND:
//   AXIS      y[o, k.., i] = x[o, index[k..], i], where x is viewed as (axes before `axis`, axis,
//             axes after it) and the axes of the index replace `axis`.
//   ELEMENTS  y[k..] = x[k.. with index[k..] on `axis`]
//   ND        y[b.., k.., i..] = x[b.., index[b.., k.., 0], index[b.., k.., 1].., i..]
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
  const IndexRange range{.limit = sizes.rows, .from_end = sizes.from_end};
  CheckIndices(*this, index, 1, {&range, 1}, Entries());
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

Picks GatherPicks(const Layer& layer, const Shape& x, const Shape& index) {
  const GatherParameter& gather = layer.param().gather_param();
  if (gather.mode() == GatherParameter::ND) {
    return SlicePicks(layer, x, index, gather.batch_dims());
  }
  return ElementPicks(layer, x, index, LayerAxis(layer, x, gather.axis(), "gather_param.axis"));
}

namespace {

class Gather final : public GatherLayer {
 public:
  explicit Gather(const LayerParameter& param) : GatherLayer(param), mode_(Gathering().mode()) {
    if (Gathering().has_batch_dims() && mode_ != GatherParameter::ND) {
      FailField(*this, "gather_param.batch_dims", "batch_dims is for mode ND; leave it out");
    }
    if (Gathering().has_axis() && mode_ == GatherParameter::ND) {
      FailField(*this, "gather_param.axis", "axis is not for mode ND; leave it out");
    }
    if (Gathering().batch_dims() < 0) {
      FailField(*this, "gather_param.batch_dims",
                StrCat("batch_dims must be 0 or more, but it is ", Gathering().batch_dims()));
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const Shape& index = context.inputs[1].shape;
    LayerInfo info;
    info.moves_only = true;
    info.backward_reads_input = {false, true};
    info.gradient_forbidden = {false, true};
    if (mode_ == GatherParameter::AXIS) {
      info.outputs = {{AlongAxis(x, index), context.inputs[0].dtype}};
      info.reach = ReachFromAxis(Axis(x));
      info.shared_inputs = {false, true};
      return info;
    }
    GatherPicks(*this, x, index);  // checks the shapes
    const bool elements = mode_ == GatherParameter::ELEMENTS;
    const int batch_dims = Gathering().batch_dims();
    info.outputs = {
        {elements ? index : SlicesShape(*this, x, index, batch_dims), context.inputs[0].dtype}};
    const bool samples = elements ? Axis(x) > 0 && x[0] == index[0] : batch_dims > 0;
    if (samples) info.reach = Reach::kSample;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    if (mode_ == GatherParameter::AXIS) return GatherLayer::Forward(args);
    const ConstTensorView& index = args.inputs[1];
    const Picks picks = GatherPicks(*this, args.inputs[0].shape(), index.shape());
    CheckPicks(*this, picks, index);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const T* x = args.inputs[0].data<T>();
      T* y = args.outputs[0].data<T>();
      ForPicks(args.context.threads(), picks, index.data<T>(),
               [&](int64_t p, int64_t offset, int64_t begin, int64_t end) {
                 std::copy(x + offset + begin, x + offset + end, y + p * picks.inner + begin);
               });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    if (mode_ == GatherParameter::AXIS) return GatherLayer::Backward(args);
    const TensorView& dx = args.input_grads[0];
    const ConstTensorView& index = args.inputs[1];
    const Picks picks = GatherPicks(*this, dx.shape(), index.shape());
    CheckPicks(*this, picks, index);
    DispatchFloat(dx.dtype(), [&]<typename T>(T) {
      std::fill_n(dx.data<T>(), dx.count(), T(0));
      const T* dy = args.output_grads[0].data<T>();
      ForPicks(args.context.threads(), picks, index.data<T>(),
               [&](int64_t p, int64_t offset, int64_t begin, int64_t end) {
                 const T* from = dy + p * picks.inner;
                 T* to = dx.data<T>() + offset;
                 for (int64_t i = begin; i < end; ++i) to[i] += from[i];
               });
    });
  }

 protected:
  int Axis(const Shape& x) const override {
    return LayerAxis(*this, x, param().gather_param().axis(), "gather_param.axis");
  }
  std::string_view Entries() const override { return "entries on the axis"; }
  bool FromEnd() const override { return true; }

 private:
  const GatherParameter& Gathering() const { return param().gather_param(); }

  Shape AlongAxis(const Shape& x, const Shape& index) const {
    const int axis = Axis(x);
    if (x.axes() - 1 + index.axes() > Shape::kMaxAxes) {
      FailInputs(*this, StrCat("bottoms of ", x.axes(), " and ", index.axes(),
                               " axes give a top of more than ", Shape::kMaxAxes));
    }
    std::vector<int64_t> dims(x.dims().begin(), x.dims().begin() + axis);
    dims.insert(dims.end(), index.dims().begin(), index.dims().end());
    dims.insert(dims.end(), x.dims().begin() + axis + 1, x.dims().end());
    return Shape(std::span<const int64_t>(dims));
  }

  const GatherParameter::Mode mode_;
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

// Adds the samples of ELEMENTS and ND.
void AddPickSamples(LayerType& type) {
  const auto add = [&](std::string name, const std::string& fields, std::vector<int64_t> x,
                       std::vector<int64_t> index, double low, double high) {
    type.samples.push_back(
        {.name = std::move(name),
         .prototxt = "gather_param { " + fields + " }",
         .inputs = {{.shape = std::move(x)},
                    {.shape = std::move(index), .low = low, .high = high, .integer = true}}});
  };
  add("from_end", "axis: 1", {4, 3, 2}, {2, 3}, -3, 2);
  add("elements", "mode: ELEMENTS axis: 1", {2, 4, 3}, {2, 5, 3}, -4, 3);
  add("elements_axis_0", "mode: ELEMENTS", {4, 3}, {6, 2}, 0, 3);
  add("elements_last", "mode: ELEMENTS axis: -1", {2, 2, 7}, {2, 1, 3}, 0, 6);
  add("elements_large", "mode: ELEMENTS axis: 1", {8, 120, 9}, {8, 200, 9}, -120, 119);
  add("elements_none", "mode: ELEMENTS", {4, 3}, {0, 3}, 0, 3);
  add("nd", "mode: ND", {3, 3, 4}, {2, 5, 2}, -3, 2);
  add("nd_elements", "mode: ND", {3, 3}, {4, 2}, 0, 2);
  add("nd_one", "mode: ND", {3, 4}, {2}, 0, 2);
  add("nd_batches", "mode: ND batch_dims: 1", {2, 4, 3}, {2, 6, 1}, -4, 3);
  add("nd_two_batch_dims", "mode: ND batch_dims: 2", {2, 3, 4}, {2, 3, 1}, 0, 3);
  add("nd_large", "mode: ND", {7, 4001}, {9, 1}, 0, 6);
  add("nd_none", "mode: ND", {3, 4}, {0, 1}, 0, 2);
}

}  // namespace

void RegisterGather(Registry& registry) {
  LayerType type;
  type.name = "Gather";
  type.category = "arithmetic";
  type.summary = "Picks entries, elements or slices by their indices.";
  type.formula =
      "AXIS: y[o, k, i] = x[o, index[k], i]; o: axes before axis, i: axes after it. ELEMENTS: y[k] "
      "= "
      "x[k with index[k] on axis]. ND: y[b, k, i] = x[b, index[b, k, 0], index[b, k, 1], .., i]; "
      "b: "
      "batch_dims axes. These are Gather, GatherElements and GatherND of ONNX";
  type.input_docs = {
      "x: any number of axes from 1",
      "index: whole numbers 0..n-1 for an axis of size n, negative ones from the end; receives no "
      "gradient. AXIS: any shape; ELEMENTS: as many axes as x, none longer except axis; ND: the "
      "axes "
      "b, "
      "any others, and one of 1 or more coordinates"};
  type.output_docs = {
      "y: AXIS: the shape of x with axis replaced by the axes of index; ELEMENTS: the shape of "
      "index; "
      "ND: that of index without its last axis, then the axes of x without an index"};
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
  AddPickSamples(type);
  type.bad_samples = {
      {"gather_param { axis: 2 }", {{4, 3}, {2}}, "axis 2 is outside"},
      {"", {{}, {2}}, "axis 0 is outside"},
      {"gather_param { batch_dims: 1 }", {{4, 3}, {2}}, "is for mode ND"},
      {"gather_param { mode: ND axis: 1 }", {{4, 3}, {2}}, "not for mode ND"},
      {"gather_param { mode: ND batch_dims: -1 }", {{4, 3}, {2}}, "it is -1"},
      {"gather_param { mode: ND }", {{4, 3}, {}}, "no axis of coordinates"},
      {"gather_param { mode: ND batch_dims: 1 }", {{4, 3}, {4}}, "no axis of coordinates"},
      {"gather_param { mode: ND }", {{4, 3}, {5, 3}}, "1 to 2 coordinates"},
      {"gather_param { mode: ND }", {{4, 3}, {5, 0}}, "1 to 2 coordinates"},
      {"gather_param { mode: ND batch_dims: 1 }", {{4, 3}, {5, 1}}, "the same first 1 axes"},
      {"gather_param { mode: ELEMENTS }", {{4, 3}, {4}}, "the same number of axes"},
      {"gather_param { mode: ELEMENTS axis: 0 }", {{4, 3}, {4, 4}}, "axis 1 of the index"},
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
