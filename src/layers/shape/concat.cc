// Concat: the inputs one after the other along an axis; all other extents are equal.
// Each input's gradient is its part of the output's. One input alone is passed on as a view.
// Backward is not told the shape of an input whose gradient nobody wants: the extents are saved.
#include <algorithm>
#include <cstring>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

constexpr int64_t kGrainBytes = 1 << 16;  // bytes that pay for a thread

// Copies a block of `rows` rows between places where rows are differently far apart.
void CopyRows(int threads, int64_t rows, int64_t row_bytes, const std::byte* from,
              int64_t from_stride, std::byte* to, int64_t to_stride) {
  if (row_bytes == 0) return;
  const int64_t grain = std::max<int64_t>(1, kGrainBytes / row_bytes);
  ParallelFor(threads, rows, grain, [&](int64_t begin, int64_t end, int) {
    for (int64_t r = begin; r < end; ++r) {
      std::memcpy(to + r * to_stride, from + r * from_stride, static_cast<size_t>(row_bytes));
    }
  });
}

class Concat final : public Layer {
 public:
  explicit Concat(const LayerParameter& param) : Layer(param) {
    if (param.concat_param().has_axis() && param.concat_param().has_concat_dim()) {
      FailField(*this, "concat_param.concat_dim",
                "axis and concat_dim say the same thing; give one of them (axis is the newer)");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& first = context.inputs[0].shape;
    const int axis = Axis(first);
    int64_t extent = 0;
    for (const BlobSpec& input : context.inputs) {
      if (input.shape.axes() != first.axes() || input.shape.With(axis, 0) != first.With(axis, 0)) {
        FailInputs(*this, StrCat("inputs that are joined along axis ", axis,
                                 " must be equal in all other axes, but their shapes are ",
                                 ToString(first), " and ", ToString(input.shape)));
      }
      extent += input.shape[axis];
    }
    LayerInfo info;
    info.outputs = {{first.With(axis, extent), context.inputs[0].dtype}};
    info.view = context.inputs.size() == 1;
    info.saved = {{Shape{static_cast<int64_t>(context.inputs.size())}, DType::kI32}};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& whole = args.outputs[0].shape();
    const int axis = Axis(whole);
    const auto size = static_cast<int64_t>(SizeOf(args.outputs[0].dtype()));
    const int64_t stride = whole.count(axis) * size;
    auto* to = static_cast<std::byte*>(args.outputs[0].raw());
    for (size_t i = 0; i < args.inputs.size(); ++i) {
      const ConstTensorView& input = args.inputs[i];
      const int64_t row = input.shape().count(axis) * size;
      CopyRows(args.context.threads(), whole.count(0, axis), row,
               static_cast<const std::byte*>(input.raw()), row, to, stride);
      to += row;
      if (!args.saved[0].empty())
        args.saved[0].data<int>()[i] = static_cast<int>(input.shape()[axis]);
    }
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& whole = args.output_grads[0].shape();
    const int axis = Axis(whole);
    const auto size = static_cast<int64_t>(SizeOf(args.output_grads[0].dtype()));
    const int64_t stride = whole.count(axis) * size;
    const auto* from = static_cast<const std::byte*>(args.output_grads[0].raw());
    for (size_t i = 0; i < args.input_grads.size(); ++i) {
      const TensorView& dx = args.input_grads[i];
      const int64_t row = args.saved[0].data<int>()[i] * whole.count(axis + 1) * size;
      if (!dx.empty()) {
        CopyRows(args.context.threads(), whole.count(0, axis), row, from, stride,
                 static_cast<std::byte*>(dx.raw()), row);
      }
      from += row;
    }
  }

 private:
  int Axis(const Shape& shape) const {
    const ConcatParameter& concat = param().concat_param();
    return concat.has_concat_dim()
               ? LayerAxis(*this, shape, concat.concat_dim(), "concat_param.concat_dim")
               : LayerAxis(*this, shape, concat.axis(), "concat_param.axis");
  }
};

}  // namespace

void RegisterConcat(Registry& registry) {
  LayerType type;
  type.name = "Concat";
  type.category = "shape";
  type.summary = "Joins blobs along an axis.";
  type.formula = "y = [x_0, x_1, ...] along axis";
  type.param_fields = {"concat_param"};
  type.inputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Concat>(p); };
  const SampleInput a{.shape = {2, 3, 4}};
  const SampleInput b{.shape = {2, 1, 4}};
  const SampleInput c{.shape = {2, 5, 4}};
  type.samples = {
      {.name = "channels", .prototxt = "", .inputs = {a, b, c}},
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
      {.name = "one_is_empty", .prototxt = "", .inputs = {a, {.shape = {2, 0, 4}}, b}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0, 2}}}},
  };
  type.bad_samples = {
      {.prototxt = "concat_param { axis: 1 concat_dim: 1 }",
       .input_shapes = {{2, 3}, {2, 3}},
       .expect = "give one of them"},
      {.prototxt = "concat_param { axis: 2 }",
       .input_shapes = {{2, 3}, {2, 3}},
       .expect = "axis 2 is outside"},
      {.prototxt = "concat_param { concat_dim: 4294967295 }",
       .input_shapes = {{2, 3}, {2, 3}},
       .expect = "axis 4294967295 is outside"},
      {.prototxt = "", .input_shapes = {{2, 3, 4}, {2, 3, 5}}, .expect = "2x3x4 and 2x3x5"},
      {.prototxt = "", .input_shapes = {{2, 3}, {2, 3, 1}}, .expect = "2x3 and 2x3x1"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
