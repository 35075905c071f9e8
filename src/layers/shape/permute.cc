// Permute, Transpose: axis j of the output is axis order[j] of the input. An order that changes
// nothing makes a view. Backward applies the inverse order.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "layers/shape/mover.h"

namespace crema {
namespace {

// The axes given in the parameters, and the field that gives them.
struct GivenOrder {
  std::string field;
  std::vector<int64_t> axes;
};

class Permute final : public ElementMove {
 public:
  Permute(const LayerParameter& param, GivenOrder (*given)(const Layer&))
      : ElementMove(param), given_(given(*this)) {}

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& shape = context.inputs[0].shape;
    const AxisOrder order = Order(shape);
    LayerInfo info;
    info.outputs = {{Permuted(shape, order), context.inputs[0].dtype}};
    info.reach = shape.axes() > 0 && order[0] == 0 ? Reach::kSample : Reach::kAll;
    info.moves_only = true;
    info.view = std::is_sorted(order.begin(), order.begin() + shape.axes());
    return info;
  }

  StridedBlock Move(const Shape& from) const override {
    const AxisOrder order = Order(from);
    const Shape to = Permuted(from, order);
    StridedBlock block;
    for (int j = 0; j < to.axes(); ++j) {
      block.Add(to[j], from.count(order[static_cast<size_t>(j)] + 1), to.count(j + 1));
    }
    return block;
  }

 private:
  using AxisOrder = std::array<int, Shape::kMaxAxes>;

  static Shape Permuted(const Shape& shape, const AxisOrder& order) {
    std::array<int64_t, Shape::kMaxAxes> dims{};
    const auto axes = static_cast<size_t>(shape.axes());
    for (size_t j = 0; j < axes; ++j) dims[j] = shape[order[j]];
    return Shape(std::span<const int64_t>(dims.data(), axes));
  }

  // Returns the input axis of each output axis. Axes that are not given follow in their order.
  AxisOrder Order(const Shape& shape) const {
    AxisOrder order{};
    size_t size = 0;
    std::array<bool, Shape::kMaxAxes> taken{};
    for (int64_t given : given_.axes) {
      const int axis = LayerAxis(*this, shape, given, given_.field);
      if (taken[static_cast<size_t>(axis)]) {
        FailField(*this, given_.field, StrCat("axis ", given, " is given twice"));
      }
      taken[static_cast<size_t>(axis)] = true;
      order[size++] = axis;
    }
    for (int axis = 0; axis < shape.axes(); ++axis) {
      if (!taken[static_cast<size_t>(axis)]) order[size++] = axis;
    }
    return order;
  }

  const GivenOrder given_;
};

GivenOrder PermuteOrder(const Layer& layer) {
  const auto& order = layer.param().permute_param().order();
  return {"permute_param.order", {order.begin(), order.end()}};
}

GivenOrder TransposeOrder(const Layer& layer) {
  const auto& dim = layer.param().transpose_param().dim();
  if (dim.empty()) return PermuteOrder(layer);
  if (layer.param().permute_param().order_size() > 0) {
    FailField(layer, "permute_param.order",
              "transpose_param.dim and permute_param.order say the same thing; give one of them");
  }
  return {"transpose_param.dim", {dim.begin(), dim.end()}};
}

// Returns samples for a type that gives the order in `field` of `message`.
std::vector<LayerSample> Samples(const std::string& message, const std::string& field) {
  const SampleInput input{.shape = {2, 3, 4, 5}};
  const auto sample = [&](const char* name, const std::vector<int>& order, SampleInput from) {
    LayerSample made;
    made.name = name;
    made.prototxt = message + " {";
    for (int axis : order) made.prototxt += StrCat(" ", field, ": ", axis);
    made.prototxt += " }";
    made.inputs = {std::move(from)};
    return made;
  };
  return {
      sample("channels_last", {0, 2, 3, 1}, input),
      sample("some_axes", {2, 0}, input),
      sample("reversed", {3, 2, 1, 0}, input),
      sample("nothing_changes", {0, 1}, input),
      sample("no_order", {}, input),
      sample("five_axes", {0, 3, 1, 4, 2}, {.shape = {2, 3, 1, 2, 3}}),
      sample("large", {1, 0}, {.shape = {130, 250}}),
      sample("empty_batch", {1, 0}, {.shape = {0, 3}}),
  };
}

LayerType CommonType() {
  LayerType type;
  type.category = "shape";
  type.formula = "y[i_order(0), i_order(1), ..] = x[i_0, i_1, ..]";
  type.input_docs = {"x: any shape"};
  type.output_docs = {"y: axis j has the size of axis order[j] of x"};
  return type;
}

}  // namespace

void RegisterPermute(Registry& registry) {
  LayerType type = CommonType();
  type.name = "Permute";
  type.traits = {.fits_16_bits = true};
  type.summary = "Puts the axes of a blob into another order.";
  type.origin = "SSD";
  type.param_fields = {"permute_param"};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Permute>(p, PermuteOrder);
  };
  type.samples = Samples("permute_param", "order");
  type.bad_samples = {
      {"permute_param { order: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"permute_param { order: 1 order: 1 }", {{2, 3}}, "axis 1 is given twice"},
  };
  registry.Add(std::move(type));
}

void RegisterTranspose(Registry& registry) {
  LayerType type = CommonType();
  type.name = "Transpose";
  type.traits = {.fits_16_bits = true};
  type.summary = "Puts the axes of a blob into another order; takes either form of the order.";
  type.origin = "OCR ports";
  type.differences = {
      "Axes that are not given follow in their order; the ports require all of them.",
      "permute_param.order is read as well, and negative axes count from the end."};
  type.param_fields = {"transpose_param", "permute_param"};
  type.make = [](const LayerParameter& p) {
    return std::make_unique<const Permute>(p, TransposeOrder);
  };
  type.samples = Samples("transpose_param", "dim");
  type.samples.push_back({.name = "permute_param",
                          .prototxt = "permute_param { order: 2 order: 0 }",
                          .inputs = {{.shape = {2, 3, 4}}}});
  type.samples.push_back({.name = "negative",
                          .prototxt = "transpose_param { dim: -1 dim: 1 dim: 0 }",
                          .inputs = {{.shape = {2, 3, 4}}}});
  type.bad_samples = {
      {"transpose_param { dim: -3 }", {{2, 3}}, "axis -3 is outside"},
      {"transpose_param { dim: 1 dim: -1 }", {{2, 3}}, "axis -1 is given twice"},
      {"transpose_param { dim: 1 } permute_param { order: 1 }", {{2, 3}}, "give one of them"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
