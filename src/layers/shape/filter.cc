// Filter: selects from each input but the last the items (along axis 0) whose selector, the last
// input, is not 0. Their number is known only when the layer runs, so the outputs are planned for
// all items. Gradients go back to the selected items; those of the others are 0.
#include <algorithm>
#include <cmath>
#include <span>

#include "core/error.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/shape/filter_shape.h"

namespace crema {
namespace {

class Filter final : public Layer {
 public:
  using Layer::Layer;

  LayerInfo Infer(const InferContext& context) const override {
    const size_t data = context.inputs.size() - 1;
    const Shape& selector = context.inputs[data].shape;
    if (selector.axes() == 0 || selector.count(1) != 1) {
      FailInputs(*this, StrCat("the selector, the last input, must have one value for each item "
                               "(Nx1x1..), but its shape is ",
                               ToString(selector)));
    }
    if (context.output_count != data) {
      FailInputs(*this, StrCat("there are ", data, " bottoms before the selector, but ",
                               context.output_count, " tops; give one for each"));
    }
    LayerInfo info;
    for (size_t i = 0; i < data; ++i) {
      const Shape& shape = context.inputs[i].shape;
      if (shape.axes() == 0 || shape[0] != selector[0]) {
        FailInputs(*this, StrCat("the selector of shape ", ToString(selector),
                                 " needs inputs with as many items, but one has the shape ",
                                 ToString(shape)));
      }
      info.outputs.push_back(context.inputs[i]);
    }
    info.moves_only = true;
    info.dynamic_outputs = true;
    info.backward_reads_input.assign(data + 1, false);
    info.backward_reads_input[data] = true;
    info.gradient_forbidden.assign(data + 1, false);
    info.gradient_forbidden[data] = true;
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const std::span<const T> selector = args.inputs.back().span<T>();
      const int64_t kept = CountKept(selector);
      for (size_t i = 0; i < args.outputs.size(); ++i) {
        const Shape& shape = args.inputs[i].shape();
        const T* x = args.inputs[i].data<T>();
        T* y = args.outputs[i].data<T>();
        const int64_t size = shape.count(1);
        for (T selected : selector) {
          if (selected != 0) y = std::copy(x, x + size, y);
          x += size;
        }
        args.output_shapes[i] = WithItems(shape, kept);
      }
    });
  }

  void Backward(const BackwardArgs& args) const override {
    DispatchFloat(args.inputs.back().dtype(), [&]<typename T>(T) {
      const std::span<const T> selector = args.inputs.back().span<T>();
      for (size_t i = 0; i < args.output_grads.size(); ++i) {
        if (args.input_grads[i].empty()) continue;
        const T* dy = args.output_grads[i].data<T>();
        T* dx = args.input_grads[i].data<T>();
        const int64_t size = args.input_grads[i].shape().count(1);
        for (T selected : selector) {
          if (selected != 0) {
            std::copy(dy, dy + size, dx);
            dy += size;
          } else {
            std::fill(dx, dx + size, T(0));
          }
          dx += size;
        }
      }
    });
  }

 private:
  template <typename T>
  int64_t CountKept(std::span<const T> selector) const {
    int64_t kept = 0;
    for (size_t n = 0; n < selector.size(); ++n) {
      if (std::isnan(selector[n])) {
        FailInputs(*this, StrCat("the selector of item ", n,
                                 " is not a number; it must be 0 (drop) or not 0 (keep)"));
      }
      kept += selector[n] != 0 ? 1 : 0;
    }
    return kept;
  }
};

}  // namespace

void RegisterFilter(Registry& registry) {
  LayerType type;
  type.name = "Filter";
  type.category = "shape";
  type.summary = "Keeps the items of a batch that a selector picks.";
  type.formula = "y_i = the items n of x_i with selector[n] != 0, in their order";
  type.input_docs = {"x_i: N items of any shape, one blob or several",
                     "selector, the last bottom: N values, 0 drops the item"};
  type.output_docs = {"y_i: the kept items, one top for each x_i; none may be kept"};
  type.differences = {"A selector that is not a number is an error; Caffe keeps such an item.",
                      "A selector that depends on parameter blobs needs propagate_down: false; "
                      "Caffe aborts in the backward pass."};
  type.inputs = {2, Arity::kAny};
  type.outputs = {1, Arity::kAny};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Filter>(p); };
  const SampleInput selector{.shape = {6}, .low = 0, .high = 1, .integer = true};
  const SampleInput all{.shape = {4, 1, 1}, .low = 1, .high = 1, .integer = true};
  const SampleInput none{.shape = {4, 1}, .low = 0, .high = 0, .integer = true};
  type.samples = {
      {.name = "one", .prototxt = "", .inputs = {{.shape = {6, 3}}, selector}},
      {.name = "two",
       .prototxt = "",
       .inputs = {{.shape = {6, 2, 2}}, {.shape = {6}}, selector},
       .outputs = 2},
      {.name = "all", .prototxt = "", .inputs = {{.shape = {4, 3}}, all}},
      {.name = "none", .prototxt = "", .inputs = {{.shape = {4, 3}}, none}},
      {.name = "empty_batch", .prototxt = "", .inputs = {{.shape = {0, 3}}, {.shape = {0}}}},
  };
  type.bad_samples = {
      {"", {{4, 3}, {4, 3}}, "one value for each item"},
      {"", {{4, 3}, {}}, "one value for each item"},
      {"", {{4, 3}, {5}}, "as many items"},
      {"", {{}, {5}}, "as many items"},
      {"", {{4}, {4}}, "give one for each", 2},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
