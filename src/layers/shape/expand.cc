// Expand: broadcasts a blob to a larger shape, as in NumPy. dx = the sum of the gradients of the
// copies. The shape is given, or that of a second bottom, whose elements are not read.
#include <algorithm>
#include <memory>
#include <span>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/input_types.h"
#include "graph/registry.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

class Expand final : public RepeatingLayer, public InputTypes {
 public:
  explicit Expand(const LayerParameter& param) : RepeatingLayer(param) {
    const BlobShape& shape = param.expand_param().shape();
    if (shape.dim_size() > Shape::kMaxAxes) {
      FailField(*this, "expand_param.shape",
                StrCat("shape has ", shape.dim_size(), " axes; there may be ", Shape::kMaxAxes));
    }
    for (const int64_t size : shape.dim()) {
      if (size < 1) {
        FailField(*this, "expand_param.shape",
                  StrCat("shape has size ", size, ", expected 1 or more; 1 keeps the size"));
      }
    }
  }

  DType InputType(size_t index, DType given, DType net) const override {
    return index == 1 ? given : net;
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    LayerInfo info;
    info.outputs = {{Result(context), context.inputs[0].dtype}};
    const Shape& y = info.outputs[0].shape;
    const bool keeps_samples = x.axes() == y.axes() && x.axes() > 0 && x[0] == y[0];
    if (keeps_samples) info.reach = Reach::kSample;
    info.moves_only = true;
    info.view = x == y;
    if (context.inputs.size() == 2) info.gradient_forbidden = {false, true};
    return info;
  }

 private:
  // Returns the shape asked for.
  Shape Asked(const InferContext& context) const {
    const ExpandParameter& expand = param().expand_param();
    if (context.inputs.size() == 2) {
      if (expand.has_shape()) {
        FailField(*this, "expand_param.shape",
                  "shape is for one bottom; remove it or the second bottom, which has a shape");
      }
      return context.inputs[1].shape;
    }
    if (!expand.has_shape()) {
      FailField(*this, "expand_param.shape", "shape is missing; give it, or a second bottom");
    }
    const auto& sizes = expand.shape().dim();
    return Shape(std::span<const int64_t>(sizes.data(), static_cast<size_t>(sizes.size())));
  }

  Shape Result(const InferContext& context) const {
    const Shape& x = context.inputs[0].shape;
    const Shape asked = Asked(context);
    const int axes = std::max(x.axes(), asked.axes());
    std::vector<int64_t> sizes;
    for (int a = 0; a < axes; ++a) {
      const int in_x = a - axes + x.axes(), in_asked = a - axes + asked.axes();
      const int64_t from = in_x < 0 ? 1 : x[in_x], to = in_asked < 0 ? 1 : asked[in_asked];
      if (from != to && from != 1 && to != 1) {
        FailInputs(*this, StrCat("cannot expand ", ToString(x), " to ", ToString(asked),
                                 ": aligned at the end, axes must be equal or 1"));
      }
      sizes.push_back(from == 1 ? to : from);
    }
    return Shape(std::span<const int64_t>(sizes));
  }
};

std::vector<LayerSample> Samples() {
  const auto to = [](const std::string& dims) { return "expand_param { shape { " + dims + " } }"; };
  return {
      {.name = "channels",
       .prototxt = to("dim: 2 dim: 3 dim: 4"),
       .inputs = {{.shape = {2, 1, 4}}}},
      {.name = "keeps_batch",
       .prototxt = to("dim: 1 dim: 3 dim: 1"),
       .inputs = {{.shape = {2, 1, 4}}}},
      {.name = "last_axis", .prototxt = to("dim: 5"), .inputs = {{.shape = {3, 1}}}},
      {.name = "several",
       .prototxt = to("dim: 2 dim: 3 dim: 2 dim: 5"),
       .inputs = {{.shape = {1, 3, 1, 5}}}},
      {.name = "new_axes", .prototxt = to("dim: 2 dim: 1 dim: 4"), .inputs = {{.shape = {3, 1}}}},
      {.name = "scalar", .prototxt = to("dim: 2 dim: 3"), .inputs = {{.shape = {}}}},
      {.name = "nothing", .prototxt = to("dim: 1"), .inputs = {{.shape = {2, 3}}}},
      {.name = "as_other", .prototxt = "", .inputs = {{.shape = {1, 3, 1}}, {.shape = {2, 1, 4}}}},
      {.name = "large", .prototxt = to("dim: 40 dim: 1201"), .inputs = {{.shape = {1201}}}},
      {.name = "large_rows", .prototxt = to("dim: 40 dim: 1201"), .inputs = {{.shape = {40, 1}}}},
      {.name = "empty_batch", .prototxt = to("dim: 3"), .inputs = {{.shape = {0, 1}}}},
      {.name = "to_empty", .prototxt = "", .inputs = {{.shape = {1, 3}}, {.shape = {0, 1}}}},
  };
}

}  // namespace

void RegisterExpand(Registry& registry) {
  LayerType type;
  type.name = "Expand";
  type.traits.fits_16_bits = true;
  type.category = "shape";
  type.summary = "Broadcasts a blob to a larger shape, as in NumPy.";
  type.formula = "y = x, repeated along its axes of size 1; dx = the sum over repetitions";
  type.input_docs = {
      "x: a shape that can be broadcast: aligned at the end, its axes are equal to "
      "those of the other shape, or one of both is 1, or missing",
      "other (optional): has the shape to broadcast to, instead of `shape`; its "
      "elements are not read, and it receives no gradient"};
  type.output_docs = {"y: the shape that both are broadcast to"};
  type.origin = "Crema";
  type.param_fields = {"expand_param"};
  type.inputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Expand>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"", {{2, 3}}, "shape is missing"},
      {"expand_param { shape { dim: 2 } }", {{2}, {2}}, "shape is for one bottom"},
      {"expand_param { shape { dim: 2 dim: 4 } }", {{2, 3}}, "cannot expand 2x3 to 2x4"},
      {"", {{2, 3}, {4, 2, 2}}, "cannot expand 2x3 to 4x2x2"},
      {"expand_param { shape { dim: -1 } }", {{2, 3}}, "shape has size -1"},
      {"expand_param { shape { dim: 0 } }", {{1}}, "shape has size 0"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
