// Scatter: y is x, whose elements or slices that the index chooses meet the updates in their order.
// Negative indices count from the end of their axis. The modes are ONNX's ScatterElements and
// ScatterND:
//   ELEMENTS  y[k.. with index[k..] on `axis`] meets updates[k..]
//   ND        y[index[k.., 0], index[k.., 1].., i..] meets updates[k.., i..]
// An update replaces the element (NONE), or both are added, multiplied, or compared.
// Backward: a replaced element has the gradient 0, the update that is the result that of y; sums
// and products as usual; with MAX and MIN the gradient goes to x if it is the result, otherwise to
// the first update that is.
#include "layers/arithmetic/scatter.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "math/scratch.h"

namespace crema {

Picks ScatterPicks(const Layer& layer, const Shape& x, const Shape& index) {
  const ScatterParameter& scatter = layer.param().scatter_param();
  if (scatter.mode() == ScatterParameter::ND) return SlicePicks(layer, x, index, 0);
  return ElementPicks(layer, x, index, LayerAxis(layer, x, scatter.axis(), "scatter_param.axis"));
}

namespace {

constexpr int64_t kGrain = 1 << 14;  // minimum elements per thread

// The updates of the picks keys[0..], element `at` of each.
template <typename T>
struct UpdatesOf {
  T Update(int64_t k) const { return updates == nullptr ? 0 : updates[Place(k)]; }
  void Write(int64_t k, T gradient) const {
    if (grads != nullptr) grads[Place(k)] = gradient;
  }
  int64_t Place(int64_t k) const { return keys[k].pick * inner + at; }

  const PickKey* keys;
  int64_t inner;
  int64_t at;
  const T* updates;  // null: not read
  T* grads;          // null: not needed
};

class Scatter final : public Layer {
 public:
  explicit Scatter(const LayerParameter& param)
      : Layer(param), reduction_(param.scatter_param().reduction()) {
    const ScatterParameter& scatter = param.scatter_param();
    if (scatter.mode() == ScatterParameter::ND && scatter.has_axis()) {
      FailField(*this, "scatter_param.axis", "axis is not for mode ND; leave it out");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const Shape& index = context.inputs[1].shape;
    const Shape& updates = context.inputs[2].shape;
    const Picks picks = ScatterPicks(*this, x, index);
    const Shape expected = picks.elements ? index : SlicesShape(*this, x, index, 0);
    if (updates != expected) {
      FailInputs(*this, StrCat("the updates must have the shape ", ToString(expected),
                               ", but theirs is ", ToString(updates)));
    }
    LayerInfo info;
    info.outputs = {context.inputs[0]};
    if (picks.elements && picks.axis > 0 && x[0] == index[0]) info.reach = Reach::kSample;
    info.moves_only = reduction_ == ScatterParameter::NONE || Compares();
    info.in_place = !Reads();
    info.backward_reads_input = {Reads(), true, Reads()};
    info.gradient_forbidden = {false, true, false};
    return info;
  }

  void Forward(const ForwardArgs& args) const override {
    const ConstTensorView &x = args.inputs[0], &index = args.inputs[1];
    const Picks picks = ScatterPicks(*this, x.shape(), index.shape());
    CheckPicks(*this, picks, index);
    DispatchFloat(x.dtype(), [&]<typename T>(T) {
      T* y = args.outputs[0].data<T>();
      CopyTo(args.context.threads(), x, y);
      const T* updates = args.inputs[2].data<T>();
      ForPicks(args.context.threads(), picks, index.data<T>(),
               [&](int64_t p, int64_t offset, int64_t begin, int64_t end) {
                 for (int64_t i = begin; i < end; ++i) {
                   T& to = y[offset + i];
                   to = Scattered(reduction_, to, updates[p * picks.inner + i]);
                 }
               });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const ConstTensorView &dy = args.output_grads[0], &index = args.inputs[1];
    const Picks picks = ScatterPicks(*this, dy.shape(), index.shape());
    CheckPicks(*this, picks, index);
    PickKey* const keys = ScratchCutter(args.scratch).Take<PickKey>(picks.count);
    DispatchFloat(dy.dtype(), [&]<typename T>(T) {
      const T* from = index.data<T>();
      for (int64_t p = 0; p < picks.count; ++p) keys[p] = {picks.Offset(from, p), p};
      std::sort(keys, keys + picks.count, KeyBefore);
      if (!args.input_grads[0].empty()) {
        CopyTo(args.context.threads(), dy, args.input_grads[0].data<T>());
      }
      const int64_t grain = kGrain / std::max<int64_t>(1, picks.inner);
      ParallelFor(args.context.threads(), picks.count, std::max<int64_t>(1, grain),
                  [&](int64_t begin, int64_t end, int) {
                    for (int64_t k = begin; k < end; ++k) {
                      AddRun<T>(args, picks.inner, keys, RunAt(keys, picks.count, k));
                    }
                  });
    });
  }

  size_t BackwardScratch(const InferContext& context, const LayerInfo&, int) const override {
    const Shape& x = context.inputs[0].shape;
    return ScratchBytes<PickKey>(ScatterPicks(*this, x, context.inputs[1].shape).count) +
           kScratchSlack;
  }

 private:
  bool Compares() const {
    return reduction_ == ScatterParameter::MAX || reduction_ == ScatterParameter::MIN;
  }
  // Returns true if the gradients depend on the values.
  bool Reads() const { return reduction_ == ScatterParameter::MUL || Compares(); }

  template <typename T>
  static void CopyTo(int threads, const ConstTensorView& from, T* to) {
    const T* data = from.data<T>();
    if (data == to) return;  // in place
    ParallelFor(threads, from.count(), kGrain, [&](int64_t begin, int64_t end, int) {
      std::copy(data + begin, data + end, to + begin);
    });
  }

  // Writes the gradients of the elements and updates of one run.
  template <typename T>
  void AddRun(const BackwardArgs& args, int64_t inner, const PickKey* keys,
              const PickRun& run) const {
    if (run.first == run.last) return;
    const TensorView &dx = args.input_grads[0], &grads = args.input_grads[2];
    UpdatesOf<T> updates{.keys = keys + run.first,
                         .inner = inner,
                         .at = 0,
                         .updates = Reads() ? args.inputs[2].data<T>() : nullptr,
                         .grads = grads.empty() ? nullptr : grads.data<T>()};
    const int64_t offset = keys[run.first].offset;
    for (updates.at = 0; updates.at < inner; ++updates.at) {
      const int64_t at = offset + updates.at;
      const T x = Reads() ? args.inputs[0].data<T>()[at] : T(0);
      const T dy = args.output_grads[0].data<T>()[at];
      const T gradient = ScatterGradient(reduction_, run.last - run.first, x, dy, updates);
      if (!dx.empty()) dx.data<T>()[at] = gradient;
    }
  }

  const ScatterParameter::Reduction reduction_;
};

std::vector<LayerSample> Samples() {
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> x,
                         std::vector<int64_t> index, std::vector<int64_t> updates, double most) {
    return LayerSample{
        .name = std::move(name),
        .prototxt = "scatter_param { " + fields + " }",
        .inputs = {{.shape = std::move(x), .distinct = true},
                   {.shape = std::move(index), .low = -most - 1, .high = most, .integer = true},
                   {.shape = std::move(updates), .distinct = true}}};
  };
  std::vector<LayerSample> samples = {
      sample("elements", "axis: 1", {2, 4, 3}, {2, 3, 3}, {2, 3, 3}, 3),
      sample("elements_axis_0", "", {4, 3}, {2, 2}, {2, 2}, 3),
      sample("elements_last", "axis: -1", {2, 2, 7}, {2, 1, 3}, {2, 1, 3}, 6),
      sample("add", "axis: 1 reduction: ADD", {2, 3, 2}, {2, 6, 2}, {2, 6, 2}, 2),
      sample("multiply", "axis: 1 reduction: MUL", {2, 3, 2}, {2, 6, 2}, {2, 6, 2}, 2),
      sample("largest", "axis: 1 reduction: MAX", {2, 3, 2}, {2, 6, 2}, {2, 6, 2}, 2),
      sample("smallest", "axis: 1 reduction: MIN", {2, 3, 2}, {2, 6, 2}, {2, 6, 2}, 2),
      sample("elements_large", "axis: 1", {8, 120, 9}, {8, 200, 9}, {8, 200, 9}, 119),
      sample("elements_none", "axis: 1", {4, 3}, {4, 0}, {4, 0}, 2),
      sample("nd", "mode: ND", {3, 3, 4}, {2, 5, 2}, {2, 5, 4}, 2),
      sample("nd_elements", "mode: ND", {3, 3}, {4, 2}, {4}, 2),
      sample("nd_one", "mode: ND", {3, 4}, {2}, {}, 2),
      sample("nd_add", "mode: ND reduction: ADD", {3, 4}, {7, 1}, {7, 4}, 2),
      sample("nd_multiply", "mode: ND reduction: MUL", {3, 4}, {7, 1}, {7, 4}, 2),
      sample("nd_largest", "mode: ND reduction: MAX", {3, 4}, {7, 1}, {7, 4}, 2),
      sample("nd_large", "mode: ND reduction: ADD", {7, 4001}, {9, 1}, {9, 4001}, 6),
  };
  return samples;
}

}  // namespace

void RegisterScatter(Registry& registry) {
  LayerType type;
  type.name = "Scatter";
  type.category = "arithmetic";
  type.summary = "Writes, adds or compares updates at the elements or slices that an index names.";
  type.formula =
      "y = x, then in the order of k: ELEMENTS: y[k with index[k] on axis] meets updates[k]. ND: "
      "y[index[k, 0], index[k, 1], .., i] meets updates[k, i]. To meet is to be replaced (NONE), "
      "or "
      "the sum, product, maximum or minimum of both. These are ScatterElements and ScatterND of "
      "ONNX";
  type.input_docs = {
      "x: any number of axes from 1",
      "index: whole numbers 0..n-1 for an axis of size n, negative ones from the end; receives no "
      "gradient. ELEMENTS: as many axes as x, none longer except axis; ND: any axes, and one of 1 "
      "or "
      "more coordinates",
      "updates: ELEMENTS: the shape of index; ND: that of index without its last axis, then the "
      "axes "
      "of x without an index"};
  type.output_docs = {"y: the shape of x"};
  type.origin = "Crema";
  type.param_fields = {"scatter_param"};
  type.inputs = {3, 3};
  type.make = [](const LayerParameter& p) { return std::make_unique<const Scatter>(p); };
  type.samples = Samples();
  type.bad_samples = {
      {"scatter_param { axis: 2 }", {{4, 3}, {2, 3}, {2, 3}}, "axis 2 is outside"},
      {"scatter_param { mode: ND axis: 1 }", {{4, 3}, {2, 1}, {2, 3}}, "not for mode ND"},
      {"", {{4, 3}, {2, 3}, {2, 2}}, "must have the shape 2x3"},
      {"scatter_param { mode: ND }", {{4, 3}, {2, 1}, {2}}, "must have the shape 2x3"},
      {"", {{4, 3}, {2}, {2}}, "the same number of axes"},
      {"", {{4, 3}, {2, 4}, {2, 4}}, "axis 1 of the index"},
      {"scatter_param { mode: ND }", {{4, 3}, {2, 3}, {2}}, "1 to 2 coordinates"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
