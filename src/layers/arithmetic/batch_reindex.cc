// BatchReindex: y[i] = x[index[i]], rows along axis 0 chosen by a list; a row may be taken several
// times or never. dx[r] = sum of dy[i] over all i with index[i] = r.
#include <algorithm>
#include <memory>
#include <vector>

#include "core/strings.h"
#include "graph/registry.h"
#include "layers/arithmetic/indices.h"

namespace crema {
namespace {

class BatchReindex final : public Layer {
 public:
  using Layer::Layer;

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

  void Forward(const ForwardArgs& args) const override {
    const Shape& x = args.inputs[0].shape();
    CheckIndices(*this, args.inputs[1], 1, x[0], "rows");
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      GatherRows(args.context.threads(), SizesOf(x, args.inputs[1].count()),
                 args.inputs[1].data<T>(), args.inputs[0].data<T>(), args.outputs[0].data<T>());
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const Shape& x = args.inputs[0].shape();
    CheckIndices(*this, args.inputs[1], 1, x[0], "rows");
    DispatchFloat(args.output_grads[0].dtype(), [&]<typename T>(T) {
      T* dx = args.input_grads[0].data<T>();
      std::fill_n(dx, x.count(), T(0));
      ScatterAddRows(args.context.threads(), SizesOf(x, args.inputs[1].count()),
                     args.inputs[1].data<T>(), args.output_grads[0].data<T>(), dx);
    });
  }

 private:
  static GatherSize SizesOf(const Shape& x, int64_t picked) {
    return {1, x[0], picked, x.count(1)};
  }
};

}  // namespace

void RegisterBatchReindex(Registry& registry) {
  LayerType type;
  type.name = "BatchReindex";
  type.category = "arithmetic";
  type.summary = "Picks, repeats and reorders the items of a batch.";
  type.formula = "y[i] = x[index[i]]";
  type.input_docs = {"x: N x ..., any number of axes from 1",
                     "index: M whole numbers 0..N-1; receives no gradient"};
  type.output_docs = {"y: M x ..., the other axes as those of x"};
  type.differences = {
      "An index that is not a whole number is an error; Caffe cuts off what is "
      "behind the point."};
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
      {.prototxt = "", .input_shapes = {{4, 3}, {2, 2}}, .expect = "the index is 2x2"},
      {.prototxt = "", .input_shapes = {{}, {2}}, .expect = "is a scalar"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
