// TopK: the k largest (or smallest) elements along one axis, and their positions on it. If
// elements are equal, the first comes first; NaN comes last of all. The gradient goes back to the
// chosen elements. This is TopK of ONNX.
#include "layers/arithmetic/top_k.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "core/parallel_for.h"
#include "core/strings.h"
#include "graph/registry.h"
#include "math/scratch.h"

namespace crema {
namespace {

constexpr int64_t kGrain = 1 << 12;  // minimum elements per thread

class TopK final : public Layer {
 public:
  explicit TopK(const LayerParameter& param) : Layer(param) {
    if (!param.top_k_param().has_k()) {
      FailField(*this, "top_k_param.k", "k, the number of elements, is missing");
    }
  }

  LayerInfo Infer(const InferContext& context) const override {
    const Shape& x = context.inputs[0].shape;
    const TopKLines lines(*this, x);
    if (lines.k < 0 || lines.k > lines.searched) {
      FailField(*this, "top_k_param.k",
                StrCat("k is ", lines.k, ", expected 0 to ", lines.searched, ", the size of axis ",
                       lines.axis, " of ", ToString(x)));
    }
    LayerInfo info;
    const Shape y = x.With(lines.axis, lines.k);
    info.outputs.assign(context.output_count, {y, context.inputs[0].dtype});
    info.saved = {{y, DType::kI32}};
    info.reach = ReachFromAxis(lines.axis);
    info.moves_only = context.output_count == 1;
    return info;
  }

  size_t ForwardScratch(const InferContext& context, const LayerInfo&, int threads) const override {
    const TopKLines lines(*this, context.inputs[0].shape);
    return kScratchSlack + static_cast<size_t>(threads) * ScratchBytes<int32_t>(lines.searched);
  }

  void Forward(const ForwardArgs& args) const override {
    const TopKLines lines(*this, args.inputs[0].shape());
    const auto room = static_cast<int64_t>(ScratchBytes<int32_t>(lines.searched) / sizeof(int32_t));
    int32_t* const orders =
        ScratchCutter(args.scratch).Take<int32_t>(room * args.context.threads());
    const int64_t grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(1, lines.searched));
    DispatchFloat(args.inputs[0].dtype(), [&]<typename T>(T) {
      ParallelFor(args.context.threads(), lines.k == 0 ? 0 : lines.count, grain,
                  [&](int64_t begin, int64_t end, int worker) {
                    for (int64_t line = begin; line < end; ++line) {
                      int32_t* const order = orders + worker * room;
                      Rank(lines, line, args.inputs[0].data<T>(), order);
                      Write<T>(args, lines, line, order);
                    }
                  });
    });
  }

  void Backward(const BackwardArgs& args) const override {
    const TensorView& dx = args.input_grads[0];
    const TopKLines lines(*this, dx.shape());
    DispatchFloat(dx.dtype(), [&]<typename T>(T) {
      std::fill_n(dx.data<T>(), dx.count(), T(0));
      if (args.output_grads[0].empty()) return;
      const T* dy = args.output_grads[0].data<T>();
      const int32_t* positions = args.saved[0].data<int32_t>();
      for (int64_t line = 0; line < lines.count; ++line) {
        for (int64_t i = 0; i < lines.k; ++i) {
          const int64_t at = lines.InY(line, i);
          dx.data<T>()[lines.InX(line, positions[at])] = dy[at];
        }
      }
    });
  }

 private:
  // Writes the positions of the chosen elements to order[0..k).
  template <typename T>
  static void Rank(const TopKLines& lines, int64_t line, const T* x, int32_t* order) {
    std::iota(order, order + lines.searched, 0);
    const auto before = [&](int32_t a, int32_t b) {
      return lines.Before(x[lines.InX(line, a)], a, x[lines.InX(line, b)], b);
    };
    if (lines.sorted) {
      std::partial_sort(order, order + lines.k, order + lines.searched, before);
    } else {
      std::nth_element(order, order + lines.k - 1, order + lines.searched, before);
      std::sort(order, order + lines.k);
    }
  }

  template <typename T>
  static void Write(const ForwardArgs& args, const TopKLines& lines, int64_t line,
                    const int32_t* order) {
    const bool saves = !args.saved[0].empty();
    for (int64_t i = 0; i < lines.k; ++i) {
      const int64_t at = lines.InY(line, i);
      args.outputs[0].data<T>()[at] = args.inputs[0].data<T>()[lines.InX(line, order[i])];
      if (args.outputs.size() > 1) args.outputs[1].data<T>()[at] = static_cast<T>(order[i]);
      if (saves) args.saved[0].data<int32_t>()[at] = order[i];
    }
  }
};

}  // namespace

void RegisterTopK(Registry& registry) {
  LayerType type;
  type.name = "TopK";
  type.category = "arithmetic";
  type.summary = "The largest or smallest elements along one axis, and their positions.";
  type.formula =
      "values[i] = the i-th largest x on the axis, positions[i] = its position; of equal ones the "
      "first comes first. It is TopK of ONNX";
  type.input_docs = {"x: any shape with the axis"};
  type.output_docs = {"values: the shape of x with k as the size of the axis",
                      "positions (optional): the same shape; exact up to 2^24 on the axis"};
  type.origin = "Crema";
  type.param_fields = {"top_k_param"};
  type.outputs = {1, 2};
  type.make = [](const LayerParameter& p) { return std::make_unique<const TopK>(p); };
  const auto sample = [](std::string name, const std::string& fields, std::vector<int64_t> shape,
                         int outputs = 1) {
    return LayerSample{.name = std::move(name),
                       .prototxt = "top_k_param { " + fields + " }",
                       .inputs = {{.shape = std::move(shape), .distinct = true}},
                       .outputs = outputs};
  };
  type.samples = {
      sample("largest", "k: 3", {2, 7}),
      sample("smallest", "k: 2 largest: false axis: 1", {2, 5, 3}),
      sample("in_order", "k: 3 sorted: false axis: 1", {2, 6, 2}),
      sample("first_axis", "k: 2 axis: 0", {4, 3}),
      sample("all", "k: 4", {2, 4}),
      sample("positions", "k: 3 axis: 1", {2, 7, 2}, 2),
      sample("none", "k: 0", {2, 4}),
      sample("large", "k: 20 axis: 1", {9, 300, 11}),
      sample("empty_batch", "k: 2", {0, 4}),
  };
  const auto bad = [](const char* fields, const char* expect) {
    return BadSample{std::string("top_k_param { ") + fields + " }", {{2, 6}}, expect};
  };
  type.bad_samples = {
      bad("", "is missing"),
      bad("k: 7", "k is 7, expected 0 to 6"),
      bad("k: -1", "k is -1"),
      bad("k: 1 axis: 2", "axis 2 is outside"),
  };
  registry.Add(std::move(type));
}

}  // namespace crema
