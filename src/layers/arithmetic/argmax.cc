// ArgMax: positions of the top_k largest values, largest first. If values are equal, the later
// one comes first, as in Caffe; NaN comes last of all.
//   axis unset: searches all values of each item; y is N x 1 x top_k, or N x 2 x top_k with
//               out_max_val: positions, then values. Axes after the third are 1.
//   axis set:   searches along that axis, whose size becomes top_k; y holds positions, or values
//               with out_max_val.
#include "layers/arithmetic/argmax.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "crema.pb.h"
#include "graph/registry.h"
#include "layers/layer_axis.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // minimum values per thread

// Values with a constant stride.
template <typename T>
struct Line {
  const T* data;
  int64_t count;
  int64_t stride;
  T operator[](int64_t i) const { return data[i * stride]; }

  // Returns true if value a ranks before value b.
  bool Before(int64_t a, int64_t b) const { return ComesBefore((*this)[a], a, (*this)[b], b); }
};

// Writes the positions of the top_k first values to order[0..top_k). `order` must have room for all
// positions.
template <typename T>
void Rank(const Line<T>& line, int64_t top_k, int32_t* order) {
  if (top_k == 1) {
    int64_t best = 0;
    for (int64_t i = 1; i < line.count; ++i) {
      if (line.Before(i, best)) best = i;
    }
    order[0] = static_cast<int32_t>(best);
    return;
  }
  std::iota(order, order + line.count, 0);
  std::partial_sort(order, order + top_k, order + line.count,
                    [&](int32_t a, int32_t b) { return line.Before(a, b); });
}

class ArgMax final : public Layer {
 public:
  explicit ArgMax(const LayerParameter& param)
      : Layer(param),
        values_(param.argmax_param().out_max_val()),
        top_k_(param.argmax_param().top_k()) {
    if (top_k_ == 0) FailField(*this, "argmax_param.top_k", "top_k is 0, expected 1 or more");
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    if (x.axes() == 0) FailInputs(*this, "the input is a scalar; there is nothing to search");
    const int64_t searched = HasAxis() ? x[Axis(x)] : x.count(1);
    if (top_k_ > searched) {
      FailField(*this, "argmax_param.top_k",
                StrCat("top_k is ", top_k_, ", but there are ", searched, " values to search in ",
                       ToString(x)));
    }
    LayerInfo info;
    info.outputs = {
        {HasAxis() ? x.With(Axis(x), top_k_) : WithoutAxis(x), context.inputs[0].dtype}};
    info.reach = ReachFromAxis(HasAxis() ? Axis(x) : 1);
    info.moves_only = HasAxis() && param().argmax_param().out_max_val();
    info.gradient_forbidden = {true};
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    return kScratchSlack +
           static_cast<size_t>(threads) * ScratchBytes<int32_t>(Searched(context.inputs[0].shape));
  }

  void Forward(const ForwardArgs& args) const override {
    const Shape& x = args.inputs[0].shape();
    const int64_t searched = Searched(x);
    const int64_t inner = HasAxis() ? x.count(Axis(x) + 1) : 1;
    const int64_t lines = HasAxis() ? x.count(0, Axis(x)) * inner : x[0];
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, searched));
    ScratchCutter cutter(args.scratch);
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      const int64_t room = static_cast<int64_t>(ScratchBytes<int32_t>(searched) / sizeof(int32_t));
      int32_t* orders = cutter.Take<int32_t>(room * args.context.threads());
      ParallelFor(args.context.threads(), lines, grain, [&](int64_t b, int64_t e, int worker) {
        int32_t* order = orders + worker * room;
        for (int64_t i = b; i < e; ++i) {
          const int64_t outer = i / inner;
          const Line<T> line{args.inputs[0].data<T>() + outer * searched * inner + i % inner,
                             searched, inner};
          Rank(line, top_k_, order);
          Write(line, order, outer, i % inner, inner, args.outputs[0].data<T>());
        }
      });
    });
  }

 private:
  bool HasAxis() const { return param().argmax_param().has_axis(); }
  int Axis(const Shape& x) const {
    return LayerAxis(*this, x, param().argmax_param().axis(), "argmax_param.axis");
  }
  int64_t Searched(const Shape& x) const { return HasAxis() ? x[Axis(x)] : x.count(1); }

  Shape WithoutAxis(const Shape& x) const {
    std::vector<int64_t> dims(static_cast<size_t>(std::max(3, x.axes())), 1);
    dims[0] = x[0];
    dims[1] = values_ ? 2 : 1;
    dims[2] = top_k_;
    return Shape(std::span<const int64_t>(dims));
  }

  template <typename T>
  void Write(const Line<T>& line, const int32_t* order, int64_t outer, int64_t at, int64_t inner,
             T* y) const {
    const bool both = values_ && !HasAxis();
    y += outer * (both ? 2 : 1) * top_k_ * inner + at;
    for (int64_t k = 0; k < top_k_; ++k) {
      const T value = line[order[k]];
      y[k * inner] = values_ && HasAxis() ? value : static_cast<T>(order[k]);
      if (both) y[top_k_ + k] = value;
    }
  }

  const bool values_;
  const int64_t top_k_;
};

}  // namespace

void RegisterArgMax(Registry& registry) {
  LayerType type;
  type.name = "ArgMax";
  type.category = "arithmetic";
  type.summary = "Positions of the largest values, of each item or along one axis.";
  type.formula = "y[k] = the position of the k-th largest x; of equal ones the last comes first";
  type.input_docs = {"x: any number of axes from 1; receives no gradient"};
  type.output_docs = {
      "y: without axis N x 1 x top_k (N x 2 x top_k with out_max_val: positions, then values), "
      "axes after these are 1; with axis the shape of x with top_k as the size of that axis"};
  type.differences = {"NaN is ranked after everything else; in Caffe the result is undefined."};
  type.param_fields = {"argmax_param"};
  type.make = [](const LayerParameter& p) { return std::make_unique<const ArgMax>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "argmax_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape), .distinct = true}},
                       .gradient = false};
  };
  type.samples = {
      sample("classes", "axis: 1", {4, 10}),
      sample("plain", "", {3, 2, 2, 2}),
      sample("top_3", "top_k: 3", {3, 24}),
      sample("top_3_with_values", "top_k: 3 out_max_val: true", {3, 4, 2, 3, 1}),
      sample("axis_top_2", "top_k: 2 axis: 1", {2, 5, 3}),
      sample("axis_values", "top_k: 2 axis: -2 out_max_val: true", {2, 5, 3}),
      sample("vector", "axis: 0 top_k: 4", {9}),
      sample("large", "axis: 1 top_k: 2", {40, 21, 13}),
      sample("empty_batch", "axis: 1", {0, 3}),
  };
  type.bad_samples = {
      {"argmax_param { top_k: 0 }", {{2, 3}}, "top_k is 0"},
      {"argmax_param { top_k: 4 }",
       {{2, 3}},
       "top_k is 4, but there are 3 values to search in 2x3"},
      {"argmax_param { top_k: 3 axis: 0 }", {{2, 3}}, "there are 2 values"},
      {"argmax_param { axis: 2 }", {{2, 3}}, "axis 2 is outside"},
      {"", {{}}, "is a scalar"},
  };
  registry.Add(std::move(type));
}

}  // namespace crema
