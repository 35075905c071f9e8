// Flatten: merges axes axis..end_axis into one. The output is a view of the input, so nothing is
// copied.
#include <vector>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"

namespace crema {
namespace {

class Flatten final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const FlattenParameter& flatten = param().flatten_param();
    const int first = LayerAxis(*this, shape, flatten.axis(), "flatten_param.axis");
    const int last = LayerAxis(*this, shape, flatten.end_axis(), "flatten_param.end_axis");
    // As in Caffe, an end just before the start is an empty range, which inserts an axis of size 1.
    if (first > last + 1) {
      FailField(*this, "flatten_param.end_axis",
                StrCat("end_axis ", flatten.end_axis(), " is before axis ", flatten.axis(),
                       " in a blob of shape ", ToString(shape)));
    }
    std::vector<int64_t> dims(shape.dims().begin(), shape.dims().begin() + first);
    dims.push_back(shape.count(first, last + 1));
    dims.insert(dims.end(), shape.dims().begin() + last + 1, shape.dims().end());
    LayerInfo info;
    info.outputs = {{Shape(std::span<const int64_t>(dims)), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(first);
    info.moves_only = true;
    info.view = true;
    return info;
  }

  // Never called: the output is a view.
  void Forward(const ForwardArgs&) const override { CREMA_CHECK(false); }
};

}  // namespace

void RegisterFlatten(Registry& registry) {
  LayerType type;
  type.name = "Flatten";
  type.category = "shape";
  type.summary = "Merges neighbouring axes into one.";
  type.formula = "y = x with axes axis..end_axis merged";
  type.input_docs = {"x: any shape with the axes"};
  type.output_docs = {"y: the same elements in the same memory"};
  type.param_fields = {"flatten_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Flatten>(p); };
  const SampleInput input{.shape = {2, 3, 4, 5}};
  type.samples = {
      {.name = "default", .prototxt = "", .inputs = {input}},
      {.name = "middle", .prototxt = "flatten_param { axis: 1 end_axis: 2 }", .inputs = {input}},
      {.name = "all", .prototxt = "flatten_param { axis: 0 }", .inputs = {input}},
      {.name = "negative",
       .prototxt = "flatten_param { axis: -3 end_axis: -2 }",
       .inputs = {input}},
      {.name = "new_axis", .prototxt = "flatten_param { axis: 2 end_axis: 1 }", .inputs = {input}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3, 2}}}},
  };
  type.bad_samples = {
      {"", {{4}}, "axis 1 is outside"},
      {"flatten_param { end_axis: 4 }", {{1, 2, 3, 4}}, "axis 4 is outside"},
      {"flatten_param { axis: 3 end_axis: 1 }", {{1, 2, 3, 4}}, "end_axis 1 is before axis 3"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
